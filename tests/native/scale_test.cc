// Scaling against slow references.
#include "kernels/scale.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "harness.h"
#include "kernel_values.h"

namespace {

using hvd::DType;
using hvd::ReduceOp;
using hvd::test::Decode;
using hvd::test::Encode;
using hvd::test::Format;
using hvd::test::kBrain;
using hvd::test::kHalf;
using hvd::test::kSizes;
using hvd::test::kTypes;
using hvd::test::Same;
using hvd::test::Sample;

template <typename T>
std::vector<T> Scaled(DType dtype, double factor, std::vector<T> data) {
  hvd::Scale(dtype, factor, data.data(), data.size());
  return data;
}

template <typename T>
void ExpectSaturation(DType dtype) {
  constexpr T kLow = std::numeric_limits<T>::min();
  constexpr T kHigh = std::numeric_limits<T>::max();
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<T> data = {0, 1, 100, kHigh, kLow};
  const T least = kLow < 0 ? kLow : 0;
  EXPECT_EQ(Scaled<T>(dtype, 1e30, data), (std::vector<T>{0, kHigh, kHigh, kHigh, least}));
  EXPECT_EQ(Scaled<T>(dtype, infinity, data), (std::vector<T>{0, kHigh, kHigh, kHigh, least}));
  EXPECT_EQ(Scaled<T>(dtype, nan, data), (std::vector<T>{0, 0, 0, 0, 0}));
  EXPECT_EQ(Scaled<T>(dtype, 1.0, data), data);
  const T negative = kLow < 0 ? kLow : 0;
  const T positive = kLow < 0 ? kHigh : 0;
  // Just beyond the highest value, which float64 holds exactly.
  EXPECT_EQ(Scaled<T>(dtype, 2.0, {kHigh / 2 + 1}), (std::vector<T>{kHigh}));
  EXPECT_EQ(Scaled<T>(dtype, -1e30, data),
            (std::vector<T>{0, negative, negative, negative, positive}));
}

TEST(IntegersSaturate) {
  ExpectSaturation<uint8_t>(DType::kUint8);
  ExpectSaturation<int8_t>(DType::kInt8);
  ExpectSaturation<int16_t>(DType::kInt16);
  ExpectSaturation<int32_t>(DType::kInt32);
  ExpectSaturation<int64_t>(DType::kInt64);
}

TEST(IntegersTruncateTowardsZero) {
  EXPECT_EQ(Scaled<int32_t>(DType::kInt32, 0.5, {3, -3, 5, -5, 1, -1}),
            (std::vector<int32_t>{1, -1, 2, -2, 0, 0}));
  EXPECT_EQ(Scaled<int8_t>(DType::kInt8, 1.5, {84, 85, 86, -85, -86, 1}),
            (std::vector<int8_t>{126, 127, 127, -127, -128, 1}));
  EXPECT_EQ(Scaled<uint8_t>(DType::kUint8, -0.9, {1, 2}), (std::vector<uint8_t>{0, 0}));
  EXPECT_EQ(Scaled<int64_t>(DType::kInt64, 1.0, {(int64_t{1} << 53) + 1}),
            (std::vector<int64_t>{(int64_t{1} << 53) + 1}));
}

// 1 / 49 as a float64 is too small: 49 times it is less than 1.
TEST(AnAverageOfEqualIntegersIsExact) {
  for (int ranks = 1; ranks <= 300; ++ranks) {
    std::vector<int64_t> data;
    std::vector<int64_t> expected;
    for (int64_t value = -70; value <= 70; ++value) {
      data.push_back(value * ranks);
      expected.push_back(value);
    }
    hvd::Scale(DType::kInt64, 1.0, data.data(), data.size(), ranks);
    EXPECT_EQ(data, expected);
  }
}

template <typename T>
void ExpectQuotients(DType dtype) {
  constexpr int64_t kLow = std::numeric_limits<T>::min();
  constexpr int64_t kHigh = std::numeric_limits<T>::max();
  for (const int32_t ranks : {1, 2, 3, 7, 10, 127, 255, 4099, 65'537, 1 << 20, (1 << 20) + 1}) {
    if (sizeof(T) == sizeof(int64_t) && ranks > 1 << 20) continue;  // no average
    std::vector<T> data;
    std::vector<T> expected;
    const auto add = [&](int64_t value) {
      if (value < kLow || value > kHigh) return;
      data.push_back(static_cast<T>(value));
      expected.push_back(static_cast<T>(value / ranks));
    };
    for (int64_t i = -40; i <= 40; ++i) {
      for (const int64_t near : {0L, int64_t{1} << 24, int64_t{1} << 53}) add(near + i);
      if (i >= 0) add(kLow + i);
      if (i <= 0) add(kHigh + i);
      // Both sides of where the quotient is a whole number.
      for (const int64_t off : {-1, 0, 1}) add(i * ranks + off);
      const int64_t most = kHigh / ranks - 41;
      for (const int64_t off : {-1, 0, 1}) add((most - i) * ranks + off);
    }
    hvd::Scale(dtype, 1.0, data.data(), data.size(), ranks);
    EXPECT_EQ(data, expected);
  }
}

TEST(AveragesOfIntegersAreTheirQuotients) {
  ExpectQuotients<uint8_t>(DType::kUint8);
  ExpectQuotients<int8_t>(DType::kInt8);
  ExpectQuotients<int16_t>(DType::kInt16);
  ExpectQuotients<int32_t>(DType::kInt32);
  ExpectQuotients<int64_t>(DType::kInt64);
}

TEST(FloatsScaleWithOneRounding) {
  const auto third = static_cast<float>(1.0 / 3);
  std::mt19937_64 random(5);
  for (const size_t count : kSizes) {
    std::vector<float> singles(count);
    std::vector<double> doubles(count);
    for (float& value : singles) value = Sample<float>(DType::kFloat32, random);
    for (double& value : doubles) value = Sample<double>(DType::kFloat64, random);
    const std::vector<float> scaled_singles = Scaled(DType::kFloat32, 1.0 / 3, singles);
    const std::vector<double> scaled_doubles = Scaled(DType::kFloat64, 1.0 / 3, doubles);
    std::vector<float> averages = singles;
    hvd::Scale(DType::kFloat32, 1.0, averages.data(), count, 3.0);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_TRUE(Same(DType::kFloat32, scaled_singles[i], singles[i] * third));
      const float average = static_cast<float>(static_cast<double>(singles[i]) * (1.0 / 3));
      EXPECT_TRUE(Same(DType::kFloat32, averages[i], average));
      EXPECT_TRUE(Same(DType::kFloat64, scaled_doubles[i], doubles[i] * (1.0 / 3)));
    }
  }
}

TEST(HalvesScaleInFloat32) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Format format = dtype == DType::kFloat16 ? kHalf : kBrain;
    for (const double factor : {0.5, 1.0 / 3, -7.0, 1e-3, 0.0}) {
      std::vector<uint16_t> all(65536 + 3);  // a tail that is no whole vector
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i * 257);
      const std::vector<uint16_t> scaled = Scaled(dtype, factor, all);
      size_t wrong = 0;
      for (size_t i = 0; i < all.size(); ++i) {
        const float product =
            static_cast<float>(Decode(format, all[i])) * static_cast<float>(factor);
        const uint16_t expected =
            std::isnan(product) ? format.infinity | 1 : Encode(format, product);
        wrong += !Same(dtype, scaled[i], expected);
      }
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(BooleansDoNotScale) {
  uint8_t flag = 1;
  EXPECT_THROWS(hvd::Scale(DType::kBool, 0.5, &flag, 1), std::invalid_argument, "bool");
  for (const DType dtype : kTypes) EXPECT_EQ(hvd::IsScalable(dtype), dtype != DType::kBool);
}

}  // namespace
