// Ranks of one job as processes of their own, which report to the test and can be killed.
#ifndef HVD_TESTS_NATIVE_FORKED_RANKS_H_
#define HVD_TESTS_NATIVE_FORKED_RANKS_H_

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/unique_fd.h"
#include "harness.h"
#include "ranks.h"
#include "transport/tcp_store.h"

namespace hvd::test {

// What a rank's process tells the test: one line each.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) != 0) throw SystemError("pipe", errno, "");
    read = UniqueFd(ends[0]);
    write = UniqueFd(ends[1]);
  }
  UniqueFd read;
  UniqueFd write;
};

inline void Say(const UniqueFd& fd, std::string line) {
  line += '\n';
  EXPECT_EQ(::write(fd.get(), line.data(), line.size()), line.size());
}

// Empty when the other side has ended, or says nothing for two minutes.
inline std::string ReadLine(const UniqueFd& fd) {
  constexpr int kPatienceMs = 120'000;
  std::string line;
  char c = 0;
  pollfd item{.fd = fd.get(), .events = POLLIN, .revents = 0};
  while (::poll(&item, 1, kPatienceMs) > 0 && ::read(fd.get(), &c, 1) == 1 && c != '\n') line += c;
  return line;
}

// One process for each rank, forked before this process has any thread.
class Processes {
 public:
  using Body = std::function<void(int rank, const UniqueFd& report, const UniqueFd& orders)>;

  Processes(int size, const Body& body)
      : reports_(static_cast<size_t>(size)), orders_(reports_.size()) {
    for (int rank = 0; rank < size; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) ::_exit(Run(static_cast<size_t>(rank), body));
      pids_.push_back(pid);
    }
    // So that the end of a process shows.
    for (Pipe& each : reports_) each.write.Reset();
    for (Pipe& each : orders_) each.read.Reset();
  }

  ~Processes() {
    for (const pid_t pid : pids_) {
      if (pid > 0) Kill(pid);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  std::string Report(int rank) { return ReadLine(reports_[static_cast<size_t>(rank)].read); }
  void Order(int rank, const std::string& line) {
    Say(orders_[static_cast<size_t>(rank)].write, line);
  }
  pid_t pid(int rank) const { return pids_[static_cast<size_t>(rank)]; }
  void KillRank(int rank) { Kill(std::exchange(pids_[static_cast<size_t>(rank)], -1)); }

 private:
  int Run(size_t own, const Body& body) {
    for (size_t other = 0; other < reports_.size(); ++other) {
      if (other == own) continue;
      reports_[other].write.Reset();
      orders_[other].write.Reset();
    }
    orders_[own].write.Reset();
    try {
      body(static_cast<int>(own), reports_[own].write, orders_[own].read);
      return 0;
    } catch (const std::exception& error) {
      Say(reports_[own].write, std::string("exception: ") + error.what());
      return 1;
    }
  }

  static void Kill(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }

  std::vector<Pipe> reports_;
  std::vector<Pipe> orders_;
  std::vector<pid_t> pids_;
};

inline Secret SecretOfForked() { return {5, 6, 7}; }

// Of a rank whose store is a StoreServer of the test's process.
inline RuntimeOptions ForkedOptions(int rank, int size, TransportChoice transport,
                                    const Endpoint& store) {
  RuntimeOptions options = OptionsFor(rank, size, transport, nullptr);
  options.secret = SecretOfForked();
  options.open_store = [store](const Deadline& deadline) {
    return std::make_unique<TcpStore>(store, SecretOfForked(), deadline);
  };
  return options;
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_FORKED_RANKS_H_
