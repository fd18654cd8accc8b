// Conversions between 16-bit types and wider ones, against base/half.h element by element.
#include "kernels/convert.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "base/half.h"
#include "filled.h"
#include "harness.h"

namespace {

using hvd::DType;
using hvd::test::SameBits;

// Every exponent, the numbers around those where float16 and bfloat16 change their step or end, and
// any others. Among them lie all kinds of vectors: without, with and of special values alone.
std::vector<float> Floats() {
  std::vector<float> values{0.0F, -0.0F, 65504.0F, 65519.996F, 65520.0F, 3.3895314e38F};
  for (int exponent = -149; exponent < 128; ++exponent) {
    for (const float factor : {1.0F, 1.0004883F, 1.0009766F, 1.0014648F, 1.0039062F, 1.99999F}) {
      values.push_back(std::ldexp(factor, exponent));
      values.push_back(-values.back());
    }
  }
  std::mt19937 random(1);
  for (int i = 0; i < 40'000; ++i) {
    uint32_t bits = random();
    if (i % 4096 < 64) bits |= 0x7f800000u;  // infinities and NaNs
    float value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  return values;
}

uint16_t Narrowed(DType half, float value) {
  return half == DType::kFloat16 ? hvd::HalfFromFloat(value) : hvd::BFloat16FromFloat(value);
}

float Widened(DType half, uint16_t bits) {
  return half == DType::kFloat16 ? hvd::FloatFromHalf(bits) : hvd::FloatFromBFloat16(bits);
}

template <typename Wide>
void ExpectNarrowed(DType held, DType half, std::span<const Wide> values) {
  std::vector<uint16_t> expected;
  for (const Wide value : values) expected.push_back(Narrowed(half, static_cast<float>(value)));
  std::vector<uint16_t> found(values.size());
  hvd::Convert(held, half, values.data(), found.data(), values.size());
  EXPECT_TRUE(SameBits<uint16_t>(found, expected));
}

template <typename Wide>
void ExpectAllWidened(DType half, DType held) {
  std::vector<uint16_t> halves(65536);
  std::vector<Wide> expected(halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);
    expected[i] = static_cast<Wide>(Widened(half, halves[i]));
  }
  std::vector<Wide> found(halves.size());
  hvd::Convert(half, held, halves.data(), found.data(), halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    if (std::isnan(expected[i])) continue;
    EXPECT_TRUE(SameBits<Wide>({&found[i], 1}, {&expected[i], 1}));
  }
  // A NaN stays one, with sign and payload, quiet where the conversion is the hardware's.
  for (size_t i = 0; i < halves.size(); ++i) {
    if (!std::isnan(expected[i])) continue;
    EXPECT_TRUE(std::isnan(found[i]));
    EXPECT_EQ(std::signbit(found[i]), std::signbit(expected[i]));
  }
}

}  // namespace

TEST(TypesThatHoldAndThatTravel) {
  for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
    EXPECT_TRUE(hvd::CanTravelAs(DType::kFloat32, wire));
    EXPECT_TRUE(hvd::CanTravelAs(DType::kFloat64, wire));
    EXPECT_TRUE(!hvd::CanTravelAs(DType::kFloat16, wire));
    EXPECT_TRUE(!hvd::CanTravelAs(DType::kInt32, wire));
    EXPECT_TRUE(!hvd::CanTravelAs(wire, DType::kFloat32));
  }
  EXPECT_TRUE(!hvd::CanTravelAs(DType::kFloat64, DType::kFloat32));
}

TEST(NumbersAreNarrowedToTheNearest) {
  const std::vector<float> floats = Floats();
  std::vector<double> doubles;
  for (const float value : floats) doubles.push_back(static_cast<double>(value) * 1.0000000001);
  doubles.push_back(1e300);
  doubles.push_back(-1e-300);
  doubles.push_back(std::numeric_limits<double>::denorm_min());
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    ExpectNarrowed<float>(DType::kFloat32, half, floats);
    ExpectNarrowed<double>(DType::kFloat64, half, doubles);
  }
}

TEST(AnyNumberOfElementsFromAnyAddress) {
  const std::vector<float> floats = Floats();
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    for (size_t offset = 0; offset < 5; ++offset) {
      for (size_t count = 0; count < 40; ++count) {
        ExpectNarrowed(DType::kFloat32, half, std::span(floats).subspan(100 + offset, count));
        std::vector<uint16_t> halves(count + 2, 0x1234);
        hvd::Convert(DType::kFloat32, half, floats.data() + offset, halves.data() + 1, count);
        EXPECT_TRUE(halves.front() == 0x1234 && halves.back() == 0x1234);
        std::vector<float> back(count + 2, 7.0F);
        hvd::Convert(half, DType::kFloat32, halves.data() + 1, back.data() + 1, count);
        EXPECT_TRUE(back.front() == 7.0F && back.back() == 7.0F);
      }
    }
  }
}

TEST(EveryPatternIsWidened) {
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    ExpectAllWidened<float>(half, DType::kFloat32);
    ExpectAllWidened<double>(half, DType::kFloat64);
  }
}
