// A GPU for machines without one: CUDA's driver API and HIP's runtime on host memory.
//
// It is as lazy as a GPU may be: what is enqueued on a stream runs only when somebody synchronises
// with it, or with an event behind it, so that a missing wait shows as a wrong result every time.
// The kernels are those of kernels.cu, compiled for the host.
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "device_on_host.h"

// The macros come first.
#include "device/kernels.cu"
#include "emulated_gpu.h"

namespace {

constexpr int kDevices = 2;
constexpr int kInvalid = 1;

class Stream {
 public:
  void Enqueue(std::function<void()> work) {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(std::move(work));
    ++enqueued_;
  }
  uint64_t enqueued() {
    const std::lock_guard lock(queue_mutex_);
    return enqueued_;
  }
  // Runs what was enqueued up to the position.
  void RunTo(uint64_t position) {
    const std::lock_guard running(run_mutex_);
    while (done_ < position) {
      std::function<void()> work;
      {
        const std::lock_guard lock(queue_mutex_);
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      work();
      ++done_;
    }
  }
  void RunAll() { RunTo(enqueued()); }

 private:
  std::mutex queue_mutex_;
  std::mutex run_mutex_;
  std::deque<std::function<void()>> queue_;
  uint64_t enqueued_ = 0;
  uint64_t done_ = 0;
};

struct Event {
  Stream* stream = nullptr;
  uint64_t position = 0;
};

// A stream of null is the default one.
Stream& Of(void* stream) {
  static Stream default_stream;
  return stream == nullptr ? default_stream : *static_cast<Stream*>(stream);
}

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

void RunGrid(const Launched& launch, unsigned blocks, unsigned rows, unsigned threads) {
  gridDim = {blocks, rows};
  blockDim = {threads, 1};
  for (unsigned y = 0; y < rows; ++y) {
    for (unsigned x = 0; x < blocks; ++x) {
      for (unsigned thread = 0; thread < threads; ++thread) {
        blockIdx = {x, y};
        threadIdx = {thread, 0};
        if (launch.kernel.plain != nullptr) {
          launch.kernel.plain(launch.pieces);
        } else {
          launch.kernel.scaling(launch.pieces, launch.factor, launch.divisor);
        }
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

void EmulatedEnqueue(void* stream, std::function<void()> work) {
  Of(stream).Enqueue(std::move(work));
}

extern "C" {

int cuInit(unsigned) { return NotInitializedInChildren(); }
int cuGetErrorString(int result, const char** text) {
  *text = result == kInvalid ? "invalid argument" : "emulated failure";
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
  static std::array<char, kDevices> contexts;
  *context = &contexts[static_cast<size_t>(device)];
  return 0;
}
int cuCtxSetCurrent(void*) { return NotInitializedInChildren(); }
int cuCtxGetCurrent(void** context) {
  *context = nullptr;
  return NotInitializedInChildren();
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  void* memory = std::malloc(bytes);
  std::memset(memory, 0xcd, bytes);
  *address = reinterpret_cast<uint64_t>(memory);
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  if (NotInitializedInChildren() != 0) std::abort();
  std::free(reinterpret_cast<void*>(address));
  return 0;
}
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  Of(stream).Enqueue([to, from, bytes] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  });
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = new Stream;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  Of(stream).RunAll();
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamSynchronize(void* stream) {
  Of(stream).RunAll();
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return 0;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return 0;
}
int cuEventRecord(void* event, void* stream) {
  *static_cast<Event*>(event) = {&Of(stream), Of(stream).enqueued()};
  return 0;
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const Event recorded = *static_cast<Event*>(event);
  if (recorded.stream == nullptr) return 0;
  Of(stream).Enqueue([recorded] { recorded.stream->RunTo(recorded.position); });
  return 0;
}
int cuEventSynchronize(void* event) {
  const Event recorded = *static_cast<Event*>(event);
  if (recorded.stream != nullptr) recorded.stream->RunTo(recorded.position);
  return 0;
}
int cuEventQuery(void* event) { return cuEventSynchronize(event); }
int cuModuleLoadData(void** module, const void* code) {
  // The tests' code files hold one word.
  *module = const_cast<void*>(code);
  return std::strcmp(static_cast<const char*>(code), "emulated") == 0 ? 0 : 200;
}
int cuModuleGetFunction(void** function, void*, const char* name) {
  const auto found = Kernels().find(name);
  if (found == Kernels().end()) return 500;
  *function = const_cast<Kernel*>(&found->second);  // handles are not const
  return 0;
}
int cuLaunchKernel(void* function, unsigned x, unsigned y, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void* stream, void** arguments, void**) {
  const Kernel& kernel = *static_cast<const Kernel*>(function);
  Launched launch{kernel, *static_cast<hvd::Pieces*>(arguments[0]), 1.0, 1.0};
  if (kernel.scaling != nullptr) {
    launch.factor = *static_cast<double*>(arguments[1]);
    launch.divisor = *static_cast<double*>(arguments[2]);
  }
  Of(stream).Enqueue([launch, x, y, threads] { RunGrid(launch, x, y, threads); });
  return 0;
}

}  // extern "C"

// HIP: the same device under AMD's names.
extern "C" {

int hipInit(unsigned flags) { return cuInit(flags); }
const char* hipGetErrorString(int) { return "emulated failure"; }
int hipGetDeviceCount(int* count) { return cuDeviceGetCount(count); }
int hipGetDevice(int* device) {
  *device = 0;
  return 0;
}
int hipSetDevice(int device) { return device < kDevices ? 0 : 101; }
int hipMalloc(void** memory, size_t bytes) {
  return cuMemAlloc_v2(reinterpret_cast<uint64_t*>(memory), bytes);
}
int hipFree(void* memory) { return cuMemFree_v2(reinterpret_cast<uint64_t>(memory)); }
int hipMemcpyAsync(void* to, const void* from, size_t bytes, int, void* stream) {
  return cuMemcpyAsync(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes,
                       stream);
}
int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  return cuStreamCreate(stream, flags);
}
int hipStreamDestroy(void* stream) { return cuStreamDestroy_v2(stream); }
int hipStreamSynchronize(void* stream) { return cuStreamSynchronize(stream); }
int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  return cuStreamWaitEvent(stream, event, flags);
}
int hipEventCreateWithFlags(void** event, unsigned flags) { return cuEventCreate(event, flags); }
int hipEventDestroy(void* event) { return cuEventDestroy_v2(event); }
int hipEventRecord(void* event, void* stream) { return cuEventRecord(event, stream); }
int hipEventQuery(void* event) { return cuEventQuery(event); }
int hipEventSynchronize(void* event) { return cuEventSynchronize(event); }
int hipModuleLoadData(void** module, const void* code) { return cuModuleLoadData(module, code); }
int hipModuleGetFunction(void** function, void* module, const char* name) {
  return cuModuleGetFunction(function, module, name);
}
int hipModuleLaunchKernel(void* function, unsigned x, unsigned y, unsigned z, unsigned threads,
                          unsigned threads_y, unsigned threads_z, unsigned shared, void* stream,
                          void** arguments, void** extra) {
  return cuLaunchKernel(function, x, y, z, threads, threads_y, threads_z, shared, stream, arguments,
                        extra);
}

}  // extern "C"
