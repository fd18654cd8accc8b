// What the emulated NCCL asks of the emulated GPU.
#ifndef HVD_TESTS_NATIVE_EMULATED_GPU_H_
#define HVD_TESTS_NATIVE_EMULATED_GPU_H_

#include <functional>

// Runs the work when the stream gets to it.
void EmulatedEnqueue(void* stream, std::function<void()> work);

#endif  // HVD_TESTS_NATIVE_EMULATED_GPU_H_
