// Where one rank's long payloads stand in the lane: one behind the other around a ring.
//
// The rings are so long that no core has the lines in its cache any more when they are written
// anew: all together they are four times what a second-level cache holds, as far as their memory
// goes. Shorter payloads are faster in two places, which stay in the cache of whoever writes
// them.
#ifndef HVD_TRANSPORT_SHM_LONG_PLACES_H_
#define HVD_TRANSPORT_SHM_LONG_PLACES_H_

#include <algorithm>
#include <cstddef>

#include "base/alignment.h"

namespace hvd {

class LongPlaces {
 public:
  static constexpr size_t kLeast = size_t{8} << 10;

  // How much of the memory is one rank's, unless its payloads or its cache need more.
  static constexpr size_t Share(int ranks) {
    return std::min(kMostShare, kOfAll / static_cast<size_t>(ranks) / kPair * kPair);
  }

  // What a ring takes at most. Args: payload_bytes: of the longest.
  static constexpr size_t Bytes(int ranks, size_t payload_bytes) {
    return std::max(Share(ranks), kFewest * RoundUp(payload_bytes, kPair));
  }

  // Args: cache_bytes: what a core's second-level cache holds, 0 if unknown.
  LongPlaces(int ranks, size_t cache_bytes)
      : ring_(std::clamp(4 * cache_bytes / static_cast<size_t>(ranks) / kPair * kPair, Share(ranks),
                         kMostOfRing * Share(ranks))) {}

  // The byte where the next payload begins: behind the last one, or where the ring begins anew; but
  // never over the last one, which may still be read. It is in the way of a ring's begin only where
  // its own begins less than one payload from there: then the next one stands behind it, perhaps
  // beyond the end of the ring for payloads like it, but within that for the longest.
  size_t Next(size_t payload_bytes) {
    const size_t bytes = RoundUp(payload_bytes, kPair);
    const bool anew = last_.end + bytes > std::max(ring_, kFewest * bytes) && bytes <= last_.begin;
    const size_t begin = anew ? 0 : last_.end;
    next_ = {.begin = begin, .end = begin + bytes};
    return begin;
  }
  // There is no next payload.
  void SkipNext() { next_ = last_; }
  // The next one has become the last one.
  void MoveOn() { last_ = next_; }

 private:
  struct Place {
    size_t begin = 0;
    size_t end = 0;
  };

  static constexpr size_t kPair = 128;  // two cache lines, which are fetched together
  static constexpr size_t kMostShare = size_t{1} << 20;
  static constexpr size_t kOfAll = size_t{4} << 20;
  static constexpr size_t kFewest = 3;
  static constexpr size_t kMostOfRing = 2;  // longer ones gain nothing

  size_t ring_;
  Place last_;
  Place next_;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SHM_LONG_PLACES_H_
