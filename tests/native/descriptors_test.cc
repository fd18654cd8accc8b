// The limit of open files, raised where a job needs more than the system's soft one.
#include "base/descriptors.h"

#include <sys/resource.h>

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
