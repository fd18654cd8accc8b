// Lines that nobody reads: who logs goes on, most are kept, and the number of the others is said.
#include "base/log.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "harness.h"
#include "transport/socket.h"

namespace {

using hvd::LogLevel;
using hvd::LogWriter;
using hvd::UniqueFd;

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    reader = UniqueFd(ends[0]);
    writer = UniqueFd(ends[1]);
  }
  // What comes until it ends so, or for 20 s.
  std::string ReadUntil(const std::string& end) const {
    std::string text;
    pollfd item{.fd = reader.get(), .events = POLLIN, .revents = 0};
    while (!text.ends_with(end) && ::poll(&item, 1, 20'000) > 0) {
      std::array<char, 65536> bytes;
      const ssize_t count = ::read(reader.get(), bytes.data(), bytes.size());
      if (count <= 0) break;
      text.append(bytes.data(), static_cast<size_t>(count));
    }
    return text;
  }
  UniqueFd reader;
  UniqueFd writer;
};

}  // namespace

TEST(LinesAreWrittenInOrder) {
  const Pipe pipe;
  LogWriter log({.level = LogLevel::kWarning, .show_time = false}, pipe.writer.get());
  log.Log(LogLevel::kWarning, "one");
  log.Log(LogLevel::kInfo, "not this one");
  log.Log(LogLevel::kError, "two");
  log.Finish(std::chrono::seconds(20));
  EXPECT_EQ(pipe.ReadUntil("two\n"), "[W horovod] one\n[E horovod] two\n");
}

TEST(WhoLogsDoesNotWaitForWhoReads) {
  const Pipe pipe;
  auto log = std::make_unique<LogWriter>(hvd::LogOptions{.show_time = false}, pipe.writer.get());
  const std::string most(size_t{1} << 20, 'x');  // more than any pipe holds
  log->Log(LogLevel::kWarning, most);
  hvd::WaitReady(pipe.reader.get(), POLLIN, hvd::Deadline::After(std::chrono::seconds(20)), "line");
  const std::string line(1000, '*');
  constexpr size_t kKept = LogWriter::kMostBytes / 1013 + 1;  // with "[W horovod] " and its end
  for (size_t i = 0; i < kKept + 10; ++i) log->Log(LogLevel::kWarning, line);
  log->Finish(std::chrono::milliseconds(50));
  log.reset();  // as at the end of the job; what can be written yet still is
  const std::string text = pipe.ReadUntil("what was written\n");
  EXPECT_TRUE(text.find(most) != std::string::npos);
  EXPECT_EQ(std::ranges::count(text, '*'), 1000 * kKept);
  EXPECT_TRUE(text.find("[W horovod] 10 lines were left out") != std::string::npos);
}
