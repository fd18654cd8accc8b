// Another process of this machine, by a descriptor that no later process with its number gets.
#ifndef HVD_BASE_WATCHED_PROCESS_H_
#define HVD_BASE_WATCHED_PROCESS_H_

#include <cstdint>

#include "base/unique_fd.h"

namespace hvd {

// Becomes readable when the process has ended (pidfd_open(2), Linux 5.3). None where that cannot be
// watched, or for the calling process.
UniqueFd WatchProcess(int64_t pid);

// Whether all its threads have, so that none of them does anything any more.
bool HasEnded(const UniqueFd& process);

// Sends a signal; 0 asks whether that may be done. False where it was not.
bool Signal(const UniqueFd& process, int number);

}  // namespace hvd

#endif  // HVD_BASE_WATCHED_PROCESS_H_
