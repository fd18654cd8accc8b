// The limit of open files, raised where a job needs more than the system's soft one.
#include "base/descriptors.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "harness.h"

namespace {

rlim_t SoftLimit() {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  return limit.rlim_cur;
}

void SetSoftLimit(rlim_t soft) {
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = soft;
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
}

}  // namespace

TEST(TheLimitIsRaisedWhereItIsTooLowAndElseLeftAlone) {
  SetSoftLimit(200);
  hvd::AllowDescriptors(10, "a test");
  EXPECT_EQ(SoftLimit(), rlim_t{200});
  hvd::AllowDescriptors(300, "a test");
  EXPECT_TRUE(SoftLimit() > 300);
  rlimit limit{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max != RLIM_INFINITY) {
    EXPECT_THROWS(hvd::AllowDescriptors(limit.rlim_max, "a job of many ranks"), hvd::Error,
                  "a job of many ranks needs ");
  }
}

// In a process of its own: a hard limit is not raised again.
TEST(WhatIsLeftForTheProgramIsNoReasonToFail) {
  const int failures = hvd::test::Failures();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit low{.rlim_cur = 30, .rlim_max = 40};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    hvd::AllowDescriptors(10, "a test");
    EXPECT_EQ(SoftLimit(), rlim_t{40});
    EXPECT_THROWS(hvd::AllowDescriptors(40, "a test"), hvd::Error,
                  "the hard limit of this process "
                  "is 40;");
    ::_exit(hvd::test::Failures() == failures ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
