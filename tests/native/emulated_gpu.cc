// A GPU for machines without one: CUDA's driver API on host memory; HIP's is in emulated_hip.cc.
//
// It is as lazy as a GPU may be: what is enqueued on a stream runs only when somebody synchronises
// with it, or asks for an event behind it, so that a missing wait shows as a wrong result every
// time. Giving memory back waits for what is enqueued, as with a real driver.
// The kernels are those of kernels.cu, compiled for the host.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "device_on_host.h"

// The macros come first.
#include "device/kernels.cu"
#include "emulated_gpu.h"

namespace {

constexpr int kDevices = 2;
constexpr int kInvalid = 1;
constexpr int kOutOfMemory = 2;
constexpr int kInvalidHandle = 400;
constexpr int kNotReady = 600;

// The primary context of each device.
std::array<char, kDevices> contexts;
// None means the first device here, which the frontend is taken to have chosen.
thread_local void* current = nullptr;
// Streams, events, modules and memory that nobody has given back.
std::atomic<int> in_use{0};
// The streams among them, by device.
std::array<std::atomic<int>, kDevices> streams{};
// How many allocations are still to succeed on each device, and how many then fail.
struct Room {
  std::atomic<int> successes{0};
  std::atomic<int> failures{0};
};
std::array<Room, kDevices> rooms;

// On which asking for an event waits for it, as beside a thread that waits for the whole device.
std::atomic<int> blocked_device{-1};
// Of every stream: 1 while a graph is captured.
std::atomic<int> capture_status{0};
// What a thread may do while another one captures: all that is safe, at first.
thread_local int capture_mode = 0;

class Stream {
 public:
  explicit Stream(int device) : device_(device) {}

  int device() const { return device_; }
  void Enqueue(std::function<bool()> work) {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(work));
    ++enqueued_;
  }
  uint64_t enqueued() {
    const std::lock_guard lock(queue_mutex_);
    return enqueued_;
  }
  // Runs what was enqueued up to the position; false where something there does not end now.
  bool TryTo(uint64_t position) {
    const std::lock_guard running(run_mutex_);
    while (done_ < position) {
      std::function<bool()>* work = nullptr;
      {
        const std::lock_guard lock(queue_mutex_);
        work = &queue_.front();
      }
      if (!(*work)()) return false;
      const std::lock_guard lock(queue_mutex_);
      queue_.pop_front();
      ++done_;
    }
    return true;
  }
  void RunTo(uint64_t position) {
    while (!TryTo(position)) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  void RunAll() { RunTo(enqueued()); }

 private:
  const int device_;
  std::mutex queue_mutex_;
  std::mutex run_mutex_;
  std::deque<std::function<bool()>> queue_;
  uint64_t enqueued_ = 0;
  uint64_t done_ = 0;
};

struct Event {
  int device = 0;
  Stream* stream = nullptr;
  uint64_t position = 0;
};

int CurrentDevice() {
  return current == nullptr ? 0 : static_cast<int>(static_cast<char*>(current) - contexts.data());
}

// A stream of null is the default one.
Stream& Of(void* stream) {
  static Stream default_stream(0);
  return stream == nullptr ? default_stream : *static_cast<Stream*>(stream);
}

bool IsCurrent(void* stream) { return stream == nullptr || Of(stream).device() == CurrentDevice(); }

// Those that a thread has made. Ranks are threads here, and each has a GPU to itself.
thread_local std::set<Stream*> own_streams;

struct Kernel {
  void (*plain)(hvd::Pieces);
  void (*scaling)(hvd::Pieces, double, double);
};

// A launch with its arguments, which a driver copies.
struct Launched {
  Kernel kernel;
  hvd::Pieces pieces;
  double factor;
  double divisor;
};

#define SCALING(type)                                 \
  {                                                   \
    "hvd_scale_" #type, { nullptr, hvd_scale_##type } \
  }
#define CONVERTING(to, from)                                       \
  {                                                                \
    "hvd_" #to "_from_" #from, { nullptr, hvd_##to##_from_##from } \
  }
#define PLAIN(name)          \
  {                          \
    #name, { name, nullptr } \
  }

const std::map<std::string, Kernel>& Kernels() {
  static const std::map<std::string, Kernel> kernels{
      SCALING(float16),
      SCALING(bfloat16),
      SCALING(float32),
      SCALING(float64),
      SCALING(uint8),
      SCALING(int8),
      SCALING(int16),
      SCALING(int32),
      SCALING(int64),
      PLAIN(hvd_copy),
      CONVERTING(float16, float32),
      CONVERTING(float32, float16),
      CONVERTING(float16, float64),
      CONVERTING(float64, float16),
      CONVERTING(bfloat16, float32),
      CONVERTING(float32, bfloat16),
      CONVERTING(bfloat16, float64),
      CONVERTING(float64, bfloat16),
  };
  return kernels;
}

void RunGrid(const Launched& launch, unsigned blocks, unsigned threads) {
  blockDim = {threads};
  for (unsigned block = 0; block < blocks; ++block) {
    for (unsigned thread = 0; thread < threads; ++thread) {
      blockIdx = {block};
      threadIdx = {thread};
      if (launch.kernel.plain != nullptr) {
        launch.kernel.plain(launch.pieces);
      } else {
        launch.kernel.scaling(launch.pieces, launch.factor, launch.divisor);
      }
    }
  }
}

}  // namespace

// As CUDA says it in children of the process that has opened it.
int NotInitializedInChildren() {
  static const pid_t process = ::getpid();
  return ::getpid() == process ? 0 : 3;
}

void EmulatedEnqueue(void* stream, std::function<bool()> work) {
  Of(stream).Enqueue(std::move(work));
}

int EmulatedDevice() { return CurrentDevice(); }

bool EmulatedIsCurrent(void* stream) { return IsCurrent(stream); }

extern "C" {

int cuInit(unsigned) { return NotInitializedInChildren(); }
int cuGetErrorString(int result, const char** text) {
  *text = result == kInvalid       ? "invalid argument"
          : result == kOutOfMemory ? "out of memory"
                                   : "emulated failure";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = kDevices;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal < kDevices ? 0 : 101;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  *value = attribute == 75 ? 9 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts[static_cast<size_t>(device)];
  return 0;
}
int cuCtxSetCurrent(void* context) {
  current = context;
  return NotInitializedInChildren();
}
int cuCtxGetCurrent(void** context) {
  *context = current;
  return NotInitializedInChildren();
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  Room& room = rooms[static_cast<size_t>(CurrentDevice())];
  if (room.successes > 0) {
    --room.successes;
  } else if (room.failures > 0) {
    --room.failures;
    return kOutOfMemory;
  }
  void* memory = std::malloc(bytes);
  std::memset(memory, 0xcd, bytes);
  *address = reinterpret_cast<uint64_t>(memory);
  ++in_use;
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  if (NotInitializedInChildren() != 0) std::abort();
  for (Stream* stream : own_streams) stream->RunAll();
  std::free(reinterpret_cast<void*>(address));
  --in_use;
  return 0;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  if (!IsCurrent(stream)) return kInvalidHandle;
  Of(stream).Enqueue([to, from, bytes] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
    return true;
  });
  return 0;
}
int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void* stream) {
  if (!IsCurrent(stream)) return kInvalidHandle;
  Of(stream).Enqueue([memory, value, bytes] {
    std::memset(reinterpret_cast<void*>(memory), value, bytes);
    return true;
  });
  return 0;
}
int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return 0;
}
int cuStreamCreateWithPriority(void** stream, unsigned, int) {
  auto* made = new Stream(CurrentDevice());
  own_streams.insert(made);
  ++in_use;
  ++streams.at(static_cast<size_t>(made->device()));
  *stream = made;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  Of(stream).RunAll();
  --streams.at(static_cast<size_t>(Of(stream).device()));
  own_streams.erase(static_cast<Stream*>(stream));
  delete static_cast<Stream*>(stream);
  --in_use;
  return 0;
}
int cuStreamSynchronize(void* stream) {
  Of(stream).RunAll();
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  *event = new Event{CurrentDevice()};
  ++in_use;
  return 0;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  --in_use;
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  Event& recorded = *static_cast<Event*>(event);
  if (stream != nullptr && Of(stream).device() != recorded.device) return kInvalidHandle;
  recorded.stream = &Of(stream);
  recorded.position = Of(stream).enqueued();
  return 0;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const Event recorded = *static_cast<Event*>(event);
  if (recorded.stream == nullptr) return 0;
  Of(stream).Enqueue([recorded] { return recorded.stream->TryTo(recorded.position); });
  return 0;
}
int cuEventSynchronize(void* event) {
  const Event recorded = *static_cast<Event*>(event);
  if (recorded.stream != nullptr) recorded.stream->RunTo(recorded.position);
  return 0;
}
int cuEventQuery(void* event) {
  const Event recorded = *static_cast<Event*>(event);
  if (recorded.stream != nullptr && recorded.device == blocked_device) {
    recorded.stream->RunTo(recorded.position);
  }
  return recorded.stream == nullptr || recorded.stream->TryTo(recorded.position) ? 0 : kNotReady;
}
int cuStreamIsCapturing(void*, int* status) {
  *status = capture_status;
  return 0;
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return 0;
}
int cuModuleLoadData(void** module, const void* code) {
  // The tests' code files hold one word.
  if (std::strcmp(static_cast<const char*>(code), "emulated") != 0) return 200;
  *module = new int(CurrentDevice());
  ++in_use;
  return 0;
}
int cuModuleUnload(void* module) {
  delete static_cast<int*>(module);
  --in_use;
  return 0;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  const auto found = Kernels().find(name);
  if (found == Kernels().end()) return 500;
  *function = const_cast<Kernel*>(&found->second);  // handles are not const
  return 0;
}
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void* stream, void** arguments, void**) {
  if (!IsCurrent(stream)) return kInvalidHandle;
  const Kernel& kernel = *static_cast<const Kernel*>(function);
  Launched launch{kernel, *static_cast<hvd::Pieces*>(arguments[0]), 1.0, 1.0};
  if (kernel.scaling != nullptr) {
    launch.factor = *static_cast<double*>(arguments[1]);
    launch.divisor = *static_cast<double*>(arguments[2]);
  }
  Of(stream).Enqueue([launch, blocks, threads] {
    RunGrid(launch, blocks, threads);
    return true;
  });
  return 0;
}

}  // extern "C"

// Not a driver's.
extern "C" {

int EmulatedGpuInUse() { return in_use; }
int EmulatedGpuStreams(int device) { return streams.at(static_cast<size_t>(device)); }
// After so many allocations, so many fail.
void EmulatedGpuFull(int device, int successes, int failures) {
  Room& room = rooms.at(static_cast<size_t>(device));
  room.successes = successes;
  room.failures = failures;
}
// Has who asks for an event of the device wait for it; -1: none.
void EmulatedGpuBlock(int device) { blocked_device = device; }
void EmulatedGpuCapture(bool captures) { capture_status = captures ? 1 : 0; }
int EmulatedGpuCaptureMode() { return capture_mode; }

}  // extern "C"
