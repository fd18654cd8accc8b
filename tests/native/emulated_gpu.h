// What the emulated NCCL asks of the emulated GPU.
#ifndef HVD_TESTS_NATIVE_EMULATED_GPU_H_
#define HVD_TESTS_NATIVE_EMULATED_GPU_H_

#include <functional>

// Runs the work when the stream gets to it, again and again until it is done, which it says: as a
// kernel that waits for others.
void EmulatedEnqueue(void* stream, std::function<bool()> work);

// That of the calling thread.
int EmulatedDevice();
bool EmulatedIsCurrent(void* stream);

#endif  // HVD_TESTS_NATIVE_EMULATED_GPU_H_
