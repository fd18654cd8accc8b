// How long requests that nobody waits for yet stay with their rank, so that those which follow
// travel with them.
#ifndef HVD_RUNTIME_GATHER_TIME_H_
#define HVD_RUNTIME_GATHER_TIME_H_

#include <chrono>

namespace hvd {

// Threads that wake each other for every single request spend more than that.
inline constexpr std::chrono::microseconds kShortGatherTime{100};

// Where ranks share memory and have no core to spare. An operation that runs while its rank
// computes hides nothing there: it takes the core away, and halfway through the ranks wait for
// whichever has not got its own back. So it is left to callers that wait, if they come soon.
inline constexpr std::chrono::microseconds kLongGatherTime{50'000};

// Whatever the user says; and however long a rank computes, whose long stays go on meanwhile: the
// backward pass of a large model may take longer than the time above.
inline constexpr std::chrono::microseconds kLongestGatherTime{1'000'000};

// A process computes whose threads have had at least one part in so many of the time that passed:
// ranks may have to share cores with several others.
inline constexpr int kComputingPart = 20;

// How long a caller waits before it hurries other ranks: one that comes a little later needs no
// interruption, and runs its operations itself.
inline constexpr std::chrono::milliseconds kPatience{5};

}  // namespace hvd

#endif  // HVD_RUNTIME_GATHER_TIME_H_
