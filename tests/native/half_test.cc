// Conversions between float32 and the 16-bit formats against arithmetic.
#include "base/half.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "half_reference.h"
#include "harness.h"

namespace {

using hvd::test::Decode;
using hvd::test::Encode;
using hvd::test::IsNaN;
using hvd::test::kBrain;
using hvd::test::kHalf;

float FloatOf(uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(HalfToFloatIsExactForAllPatterns) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const float half = hvd::FloatFromHalf(bits);
    const float brain = hvd::FloatFromBFloat16(bits);
    EXPECT_EQ(std::isnan(half), IsNaN(kHalf, bits));
    EXPECT_EQ(std::isnan(brain), IsNaN(kBrain, bits));
    if (!std::isnan(half)) EXPECT_EQ(static_cast<double>(half), Decode(kHalf, bits));
    if (!std::isnan(brain)) EXPECT_EQ(static_cast<double>(brain), Decode(kBrain, bits));
    EXPECT_EQ(std::signbit(half), i >= 0x8000);
    EXPECT_EQ(std::signbit(brain), i >= 0x8000);
  }
}

TEST(HalfSurvivesTheRoundTrip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const uint16_t half = IsNaN(kHalf, bits) ? bits | 0x0200 : bits;  // quiet, as the CPU does
    const uint16_t brain = IsNaN(kBrain, bits) ? bits | 0x0040 : bits;
    EXPECT_EQ(hvd::HalfFromFloat(hvd::FloatFromHalf(bits)), half);
    EXPECT_EQ(hvd::BFloat16FromFloat(hvd::FloatFromBFloat16(bits)), brain);
  }
}

void ExpectRounding(float value) {
  if (std::isnan(value)) return;
  EXPECT_EQ(hvd::HalfFromFloat(value), Encode(kHalf, value));
  EXPECT_EQ(hvd::BFloat16FromFloat(value), Encode(kBrain, value));
}

TEST(FloatToHalfRoundsToNearestEven) {
  // Around every representable number: itself, the tie with its successor, and one to either side.
  for (uint32_t i = 0; i < 0x7f80; ++i) {
    const uint32_t brain = i << 16;
    for (const uint32_t bits : {brain, brain + 1, brain + 0x7fff, brain + 0x8000, brain + 0x8001}) {
      ExpectRounding(FloatOf(bits));
      ExpectRounding(FloatOf(bits | 0x80000000u));
    }
    if (i >= 0x7c00) continue;
    const double low = Decode(kHalf, static_cast<uint16_t>(i));
    const double high = i == 0x7bff ? 65536 : Decode(kHalf, static_cast<uint16_t>(i + 1));
    const float tie = static_cast<float>((low + high) / 2);
    for (const float value : {tie, std::nextafterf(tie, 0), std::nextafterf(tie, 1e9F)}) {
      ExpectRounding(value);
      ExpectRounding(-value);
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) ExpectRounding(FloatOf(static_cast<uint32_t>(random())));
  EXPECT_EQ(hvd::HalfFromFloat(65519.996F), 0x7bff);
  EXPECT_EQ(hvd::HalfFromFloat(65520.0F), 0x7c00);
}

TEST(FloatToHalfKeepsNaNs) {
  for (const uint32_t sign : {0u, 0x80000000u}) {
    for (const uint32_t payload : {1u, 0x1fffu, 0x2000u, 0x200000u, 0x3fffffu, 0x7fffffu}) {
      const uint32_t bits = sign | 0x7f800000u | payload;
      const uint16_t half = static_cast<uint16_t>(sign >> 16 | 0x7e00 | payload >> 13);
      const uint16_t brain = static_cast<uint16_t>(bits >> 16 | 0x40);
      EXPECT_EQ(hvd::HalfFromFloat(FloatOf(bits)), half);
      EXPECT_EQ(hvd::BFloat16FromFloat(FloatOf(bits)), brain);
    }
  }
}

}  // namespace
