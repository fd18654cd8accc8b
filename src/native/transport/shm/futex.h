// Sleeping on a 32-bit word of shared memory until another process changes it.
#ifndef HVD_TRANSPORT_SHM_FUTEX_H_
#define HVD_TRANSPORT_SHM_FUTEX_H_

#include <atomic>
#include <chrono>
#include <cstdint>

namespace hvd {

// Returns at the latest after `timeout`, also without a reason.
void FutexWait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds timeout);
void FutexWakeAll(std::atomic<uint32_t>& word);

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_FUTEX_H_
