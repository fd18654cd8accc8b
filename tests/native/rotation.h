// Messages of every size between ranks, each of which sends to the next and receives from the one
// before.
#ifndef HVD_TESTS_NATIVE_ROTATION_H_
#define HVD_TESTS_NATIVE_ROTATION_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "communicators.h"
#include "harness.h"
#include "ranks.h"
#include "transport/transport.h"

namespace hvd::test {

// A longer one of the same seed begins with a shorter one.
HVD_TEST_ARITHMETIC inline std::vector<std::byte> Pattern(int seed, size_t count) {
  std::vector<std::byte> bytes(count);
  std::byte* const to = bytes.data();
  for (size_t i = 0; i < count; i += sizeof(uint64_t)) {
    const uint64_t next = (i + 1 + static_cast<uint64_t>(seed) * 31) * 0x9e3779b97f4a7c15;
    if (count - i < sizeof(next)) {
      std::memcpy(to + i, &next, count - i);
    } else {
      std::memcpy(to + i, &next, sizeof(next));
    }
  }
  return bytes;
}

inline bool Same(ConstBytes a, ConstBytes b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

// What one rank sends and receives in one step.
struct Turn {
  size_t step;
  int next;
  ConstBytes out;
  int previous;
  ConstBytes expected;
};

// Sizes differ by direction. Args: move: of a rank's transport, a turn.
template <typename Move>
void Rotate(Communicator& communicator, std::span<const size_t> sizes, const Move& move) {
  const int ranks = static_cast<int>(communicator.transports.size());
  OnThreads(ranks, [&](int rank) {
    const int previous = (rank + ranks - 1) % ranks;
    const auto size_of = [&](size_t step, int sender) {
      return sizes[(step + 5 * static_cast<size_t>(sender)) % sizes.size()];
    };
    for (size_t step = 0; step < sizes.size(); ++step) {
      const auto out = Pattern(rank, size_of(step, rank));
      const auto expected = Pattern(previous, size_of(step, previous));
      move(*communicator.transports[static_cast<size_t>(rank)],
           Turn{step, (rank + 1) % ranks, out, previous, expected});
    }
  });
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_ROTATION_H_
