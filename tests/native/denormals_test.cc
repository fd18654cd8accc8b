// Denormal numbers count for what they are, whatever the thread that reduces makes of them.
#include "base/denormals.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "harness.h"
#include "ranks.h"
#include "runtime/runtime.h"

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

using hvd::OpKind;
using hvd::Runtime;
using hvd::TransportChoice;
using hvd::test::OnRanks;
using hvd::test::RequestFor;
using hvd::test::Start;
using hvd::test::Wait;

// So many times the smallest one. Nothing is computed, as this thread may not be able to.
constexpr float Denormals(int count) { return std::bit_cast<float>(static_cast<uint32_t>(count)); }

// For as long as it lives, as torch.set_flush_denormal(True) has it.
class Flushing {
 public:
  Flushing() { Set(true); }
  ~Flushing() { Set(false); }
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;

 private:
  static void Set(bool on) {
#if defined(__x86_64__)
    _mm_setcsr((_mm_getcsr() & ~0x8040U) | (on ? 0x8040U : 0U));
#else
    const uint64_t control = on ? uint64_t{1} << 24 : 0;
    __asm__ volatile("msr fpcr, %0" : : "r"(control));
#endif
  }
};

[[gnu::noinline]] bool KeepsDenormals() {
  const volatile float denormal = Denormals(1);
  return denormal + denormal != 0;
}

void CheckSums(Runtime& runtime, int ranks, size_t count) {
  const std::string name = std::to_string(count);
  auto request = RequestFor<float>(OpKind::kAllreduce, name, {static_cast<int64_t>(count)});
  const std::vector<float> operand(count, Denormals(1));
  const std::vector<float> expected(count, Denormals(ranks));
  const Flushing flushing;
  std::vector<float> sum(count);
  if (!hvd::test::RunNow(runtime, request, {operand.data(), sum.data()})) {
    (void)Wait(runtime, Start(runtime, request, operand.data(), sum.data()));
  }
  EXPECT_TRUE(std::memcmp(sum.data(), expected.data(), count * sizeof(float)) == 0);
  EXPECT_FALSE(KeepsDenormals());
  sum.assign(count, 0);
  (void)Wait(runtime, Start(runtime, request, operand.data(), sum.data()));
  EXPECT_TRUE(std::memcmp(sum.data(), expected.data(), count * sizeof(float)) == 0);
  EXPECT_FALSE(KeepsDenormals());
}

}  // namespace

TEST(WhatKeepsDenormalsEndsWithItsBlock) {
  EXPECT_TRUE(KeepsDenormals());
  const Flushing flushing;
  EXPECT_FALSE(KeepsDenormals());
  {
    const hvd::KeptDenormals kept;
    EXPECT_TRUE(KeepsDenormals());
    {
      const hvd::KeptDenormals within;
      EXPECT_TRUE(KeepsDenormals());
    }
    EXPECT_TRUE(KeepsDenormals());
  }
  EXPECT_FALSE(KeepsDenormals());
}

TEST(CallersThatFlushDenormalsReduceThem) {
  for (const TransportChoice transport : {TransportChoice::kShm, TransportChoice::kTcp}) {
    for (const int ranks : {2, 3}) {
      OnRanks(ranks, transport, [ranks](int, Runtime& runtime) {
        for (const size_t count : {size_t{3}, size_t{5000}, size_t{100'003}}) {
          CheckSums(runtime, ranks, count);
        }
      });
    }
  }
}

// Threads take over what the one that starts them has.
TEST(ThreadsOfARankWhoseCallerFlushesDenormalsReduceThem) {
  const Flushing flushing;
  OnRanks(2, TransportChoice::kShm, [](int, Runtime& runtime) { CheckSums(runtime, 2, 5000); });
}

#endif
