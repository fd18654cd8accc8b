// Ranks of one job as threads of this process, over real sockets and real shared memory.
#ifndef HVD_TESTS_NATIVE_RANKS_H_
#define HVD_TESTS_NATIVE_RANKS_H_

#include <dirent.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "runtime/runtime.h"
#include "transport/hash_store.h"

namespace hvd::test {

// The job's store, shared by all of its ranks.
class SharedStore : public Store {
 public:
  explicit SharedStore(std::shared_ptr<HashStore> store) : store_(std::move(store)) {}
  void Put(const std::string& key, const std::string& value) override { store_->Put(key, value); }
  std::string Get(const std::string& key, const Deadline& deadline) override {
    return store_->Get(key, deadline);
  }
  std::string LocalHost() const override { return store_->LocalHost(); }

 private:
  std::shared_ptr<HashStore> store_;
};

inline RuntimeOptions OptionsFor(int rank, int size, TransportChoice transport,
                                 const std::shared_ptr<HashStore>& store) {
  RuntimeOptions options;
  options.rank = rank;
  options.size = size;
  options.local_size = size;
  options.host = "testhost";
  options.secret = {1, 2, 3};
  options.transport = transport;
  options.start_timeout = std::chrono::seconds(30);
  options.open_store = [store](const Deadline&) { return std::make_unique<SharedStore>(store); };
  return options;
}

// Runs a function on as many threads; an exception of one is a failed expectation.
inline void OnThreads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) {
    threads.emplace_back([&body, i] {
      try {
        body(i);
      } catch (const std::exception& error) {
        Report(__FILE__, __LINE__, "rank " + std::to_string(i) + ": " + error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Starts a job, runs the function on every rank, and shuts down. Args: change: options of a rank,
// before it starts.
inline void OnRanks(
    int size, TransportChoice transport, const std::function<void(int, Runtime&)>& body,
    const std::function<void(int, RuntimeOptions&)>& change = [](int, RuntimeOptions&) {}) {
  const auto store = std::make_shared<HashStore>();
  OnThreads(size, [&](int rank) {
    RuntimeOptions options = OptionsFor(rank, size, transport, store);
    change(rank, options);
    Runtime runtime(options);
    body(rank, runtime);
    // No rank ends the job before the others have what they wait for.
    Request barrier;
    barrier.name = "end of the test";
    barrier.kind = OpKind::kBarrier;
    const int64_t handle = runtime.Enqueue(barrier, {});
    EXPECT_TRUE(runtime.WaitFor(handle, 60'000));
    (void)runtime.Take(handle);
  });
}

template <typename T>
constexpr DType TypeOf() {
  if constexpr (std::is_same_v<T, float>) return DType::kFloat32;
  if constexpr (std::is_same_v<T, double>) return DType::kFloat64;
  if constexpr (std::is_same_v<T, int32_t>) return DType::kInt32;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kInt64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kUint8;
}

template <typename T>
Request RequestFor(OpKind kind, const std::string& name, std::vector<int64_t> shape) {
  Request request;
  request.name = name;
  request.kind = kind;
  request.tensors = {{TypeOf<T>(), std::move(shape)}};
  return request;
}

// An operation of one tensor.
inline int64_t Start(Runtime& runtime, Request request, const void* source, void* destination) {
  return runtime.Enqueue(std::move(request), {{source, destination}});
}

// As a caller that would wait at once: nothing when it has to be started.
inline std::optional<Result> RunNow(Runtime& runtime, const Request& request,
                                    const Memory& memory = {},
                                    const std::vector<int64_t>& splits = {}) {
  return runtime.RunNow(*CallOf(request, {&memory, 1}, splits));
}

// Waits for at most a minute; throws the operation's error.
inline Result Wait(Runtime& runtime, int64_t handle) {
  EXPECT_TRUE(runtime.WaitFor(handle, 60'000));
  return runtime.Take(handle);
}

// By the ordinary way: who only asks does not come to the fast lane. Throws the operation's error.
inline void Polled(Runtime& runtime, int64_t handle) {
  while (!runtime.Poll(handle)) std::this_thread::yield();
  (void)runtime.Take(handle);
}

// One complete sum, in place.
template <typename T>
void SumInPlace(Runtime& runtime, const std::string& name, std::vector<T>& data) {
  const auto request = RequestFor<T>(OpKind::kAllreduce, name, {static_cast<int64_t>(data.size())});
  (void)Wait(runtime, Start(runtime, request, data.data(), data.data()));
}

inline size_t CountEntries(const char* folder) {
  size_t count = 0;
  DIR* directory = ::opendir(folder);
  while (directory != nullptr && ::readdir(directory) != nullptr) ++count;
  if (directory != nullptr) ::closedir(directory);
  return count;
}
inline size_t OpenDescriptors() { return CountEntries("/proc/self/fd"); }
// How often the library's threads have gone to sleep so far. Sanitizers have threads of their own.
inline long WakeUpsOfLibraryThreads() {
  long total = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (!name.starts_with("hvd-")) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      long count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) total += count;
    }
  }
  return total;
}
// A thread that was joined is listed for a moment yet: the fewest of some counts, or of as many as
// it takes until no more are left than expected.
inline size_t LiveThreads(size_t expected = 0) {
  const int looks = expected == 0 ? 20 : 20'000;
  size_t fewest = CountEntries("/proc/self/task");
  for (int i = 0; i < looks && fewest > expected; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    fewest = std::min(fewest, CountEntries("/proc/self/task"));
  }
  return fewest;
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_RANKS_H_
