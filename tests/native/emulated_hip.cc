// HIP's runtime on the emulated GPU: its functions under AMD's names.
#include <cstddef>
#include <cstdint>

#include "emulated_gpu.h"

extern "C" {

int cuCtxSetCurrent(void* context);
int cuDeviceGetCount(int* count);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuEventCreate(void** event, unsigned);
int cuEventDestroy_v2(void* event);
int cuEventQuery(void* event);
int cuCtxGetStreamPriorityRange(int* least, int* greatest);
int cuEventRecord(void* event, void* stream);
int cuEventSynchronize(void* event);
int cuInit(unsigned);
int cuLaunchKernel(void* function, unsigned blocks, unsigned, unsigned, unsigned threads, unsigned,
                   unsigned, unsigned, void* stream, void** arguments, void**);
int cuMemAlloc_v2(uint64_t* address, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void* stream);
int cuMemsetD8Async(uint64_t memory, unsigned char value, size_t bytes, void* stream);
int cuModuleGetFunction(void** function, void*, const char* name);
int cuModuleLoadData(void** module, const void* code);
int cuModuleUnload(void* module);
int cuStreamCreateWithPriority(void** stream, unsigned, int);
int cuStreamDestroy_v2(void* stream);
int cuStreamSynchronize(void* stream);
int cuStreamWaitEvent(void* stream, void* event, unsigned);

int hipInit(unsigned flags) { return cuInit(flags); }
const char* hipGetErrorString(int) { return "emulated failure"; }
int hipGetDeviceCount(int* count) { return cuDeviceGetCount(count); }
int hipGetDevice(int* device) {
  *device = EmulatedDevice();
  return 0;
}
int hipSetDevice(int device) {
  int count = 0;
  cuDeviceGetCount(&count);
  if (device >= count) return 101;
  void* context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device);
  return cuCtxSetCurrent(context);
}
int hipMalloc(void** memory, size_t bytes) {
  return cuMemAlloc_v2(reinterpret_cast<uint64_t*>(memory), bytes);
}
int hipFree(void* memory) { return cuMemFree_v2(reinterpret_cast<uint64_t>(memory)); }
int hipMemcpyAsync(void* to, const void* from, size_t bytes, int, void* stream) {
  return cuMemcpyAsync(reinterpret_cast<uint64_t>(to), reinterpret_cast<uint64_t>(from), bytes,
                       stream);
}
int hipMemsetAsync(void* memory, int value, size_t bytes, void* stream) {
  return cuMemsetD8Async(reinterpret_cast<uint64_t>(memory), static_cast<unsigned char>(value),
                         bytes, stream);
}
int hipDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return cuCtxGetStreamPriorityRange(least, greatest);
}
int hipStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  return cuStreamCreateWithPriority(stream, flags, priority);
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
int hipModuleUnload(void* module) { return cuModuleUnload(module); }
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
