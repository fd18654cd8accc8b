// The arithmetic kernels against slow references that share no code with them.
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <type_traits>

#include "base/dtype.h"
#include "base/half.h"
#include "harness.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"

namespace {

using hvd::DType;
using hvd::FindReduce;
using hvd::ReduceOp;

constexpr DType kTypes[] = {DType::kUint8,   DType::kInt8,    DType::kInt16,    DType::kInt32,
                            DType::kInt64,   DType::kFloat16, DType::kBFloat16, DType::kFloat32,
                            DType::kFloat64, DType::kBool};
constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};
constexpr size_t kSizes[] = {0, 1, 3, 15, 16, 17, 1023, 4099};

// --- 16-bit formats by arithmetic ------------------------------------------------------------

struct Format {
  int mantissa;  // bits
  int bias;
  uint16_t infinity;
};
constexpr Format kHalf{10, 15, 0x7c00};
constexpr Format kBrain{7, 127, 0x7f80};

double Decode(Format format, uint16_t bits) {
  const int magnitude = bits & 0x7fff;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (magnitude > format.infinity) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude == format.infinity) return sign * std::numeric_limits<double>::infinity();
  const int exponent = magnitude >> format.mantissa;
  const int fraction = magnitude & ((1 << format.mantissa) - 1);
  const int whole = exponent == 0 ? fraction : fraction + (1 << format.mantissa);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - format.bias - format.mantissa);
}

// Nearest, ties to even, by counting units in the last place; not for NaNs.
uint16_t Encode(Format format, double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return sign | format.infinity;
  int exponent = magnitude == 0 ? 1 - format.bias : std::ilogb(magnitude);
  exponent = std::max(exponent, 1 - format.bias);
  const double units = std::ldexp(magnitude, format.mantissa - exponent);
  double whole = std::floor(units);
  const double rest = units - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1)) whole += 1;
  // A mantissa that rounded up to the next power of two carries into the exponent by addition.
  const int steps = static_cast<int>(whole) + ((exponent + format.bias - 1) << format.mantissa);
  return static_cast<uint16_t>(sign | std::min<int>(steps, format.infinity));
}

bool IsNaN(Format format, uint16_t bits) { return (bits & 0x7fff) > format.infinity; }

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

// --- Reductions ------------------------------------------------------------------------------

// Calls `visit` with a value of the C++ type that stores elements of `dtype`.
template <typename Visit>
void WithStorage(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kBool:
      return visit(uint8_t{});
    case DType::kInt8:
      return visit(int8_t{});
    case DType::kInt16:
      return visit(int16_t{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kInt64:
      return visit(int64_t{});
    case DType::kFloat16:
    case DType::kBFloat16:
      return visit(uint16_t{});
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
  }
}

template <typename T>
T Combine(ReduceOp op, T d, T s) {
  if constexpr (std::is_floating_point_v<T>) {
    if (op == ReduceOp::kMin || op == ReduceOp::kMax) {
      if (std::isnan(d) || std::isnan(s)) return std::numeric_limits<T>::quiet_NaN();
    }
  }
  switch (op) {
    case ReduceOp::kMin:
      return d < s ? d : s;
    case ReduceOp::kMax:
      return d > s ? d : s;
    case ReduceOp::kProduct:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<unsigned __int128>(d) *
                              static_cast<unsigned __int128>(s));
      } else {
        return d * s;
      }
    default:
      if constexpr (std::is_integral_v<T>) {
        return static_cast<T>(static_cast<unsigned __int128>(d) +
                              static_cast<unsigned __int128>(s));
      } else {
        return d + s;
      }
  }
}

template <typename T>
T Expected(DType dtype, ReduceOp op, T d, T s) {
  if constexpr (std::is_same_v<T, uint8_t>) {
    if (dtype == DType::kBool) {
      const bool both = op == ReduceOp::kMin || op == ReduceOp::kProduct;
      return both ? (d && s) : (d || s);
    }
  }
  if constexpr (std::is_same_v<T, uint16_t>) {
    const Format format = dtype == DType::kFloat16 ? kHalf : kBrain;
    // The float32 result is what is rounded: exact for float16, a first rounding for bfloat16.
    const float result =
        Combine(op, static_cast<float>(Decode(format, d)), static_cast<float>(Decode(format, s)));
    return std::isnan(result) ? format.infinity | 1 : Encode(format, result);
  }
  return Combine(op, d, s);
}

// Equal bits, but any NaN equals any NaN, and zeros are equal where their order is open.
template <typename T>
bool Same(DType dtype, ReduceOp op, T a, T b) {
  const bool extreme = op == ReduceOp::kMin || op == ReduceOp::kMax;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
    return extreme ? a == b : std::memcmp(&a, &b, sizeof(T)) == 0;
  } else if constexpr (std::is_same_v<T, uint16_t>) {
    const Format format = dtype == DType::kFloat16 ? kHalf : kBrain;
    if (IsNaN(format, a) || IsNaN(format, b)) return IsNaN(format, a) && IsNaN(format, b);
    return a == b || (extreme && ((a | b) & 0x7fff) == 0);
  } else {
    return a == b;
  }
}

// Half of the values are extreme ones of the type, the others any.
template <typename T>
T Sample(DType dtype, std::mt19937_64& random) {
  const uint64_t bits = random();
  if (dtype == DType::kBool) return static_cast<T>(bits & 1);
  using Limits = std::numeric_limits<T>;
  if constexpr (std::is_same_v<T, uint16_t>) {
    constexpr uint16_t kSpecial[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x007f, 0x0080,
                                     0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfe00, 0x7f7f, 0xff7f,
                                     0x7f80, 0xff80, 0x7f81, 0xffc0, 0x3c00, 0x3f80};
    return bits & 1 ? kSpecial[(bits >> 1) % std::size(kSpecial)] : static_cast<T>(bits >> 16);
  } else if constexpr (std::is_floating_point_v<T>) {
    constexpr T kSpecial[] = {0,
                              T{-0.0},
                              1,
                              -1,
                              Limits::denorm_min(),
                              -Limits::min(),
                              Limits::max(),
                              Limits::lowest(),
                              Limits::infinity(),
                              -Limits::infinity(),
                              Limits::quiet_NaN()};
    if (bits & 1) return kSpecial[(bits >> 1) % std::size(kSpecial)];
    return static_cast<T>(std::ldexp(static_cast<double>(static_cast<int64_t>(bits)),
                                     static_cast<int>((bits >> 8) % 64) - 80));
  } else {
    constexpr T kSpecial[] = {0, 1, static_cast<T>(-1), Limits::min(), Limits::max()};
    return bits & 1 ? kSpecial[(bits >> 1) % std::size(kSpecial)] : static_cast<T>(bits >> 8);
  }
}

template <typename T>
void ExpectReduction(DType dtype, ReduceOp op, size_t count, size_t from_start, size_t to_start) {
  std::mt19937_64 random(count * 31 + from_start);
  std::vector<T> from(from_start + count + 1);
  std::vector<T> to(to_start + count + 1);
  for (T& value : from) value = Sample<T>(dtype, random);
  for (T& value : to) value = Sample<T>(dtype, random);
  const std::vector<T> before = to;
  FindReduce(dtype, op)(from.data() + from_start, to.data() + to_start, count);
  size_t wrong = 0;
  for (size_t i = 0; i < to.size(); ++i) {
    const bool inside = i >= to_start && i < to_start + count;
    if (!inside) {
      wrong += std::memcmp(&to[i], &before[i], sizeof(T)) != 0;
      continue;
    }
    const T s = from[i - to_start + from_start];
    const T expected = Expected(dtype, op, before[i], s);
    if (Same(dtype, op, to[i], expected) || wrong++ != 0) continue;
    hvd::test::Report(__FILE__, __LINE__,
                      std::string(Name(dtype)) + " op " + hvd::test::Show(op) + " of " +
                          hvd::test::Show(before[i]) + " and " + hvd::test::Show(s) + " is " +
                          hvd::test::Show(to[i]) + ", not " + hvd::test::Show(expected));
  }
  EXPECT_EQ(wrong, 0);
}

TEST(EveryTypeAndOpAgreesWithTheReference) {
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kOps) {
      if (FindReduce(dtype, op) == nullptr) continue;
      WithStorage(dtype, [&](auto zero) {
        using T = decltype(zero);
        for (const size_t count : kSizes) {
          ExpectReduction<T>(dtype, op, count, 0, 0);
          ExpectReduction<T>(dtype, op, count, 1, 0);
          ExpectReduction<T>(dtype, op, count, 3, 5);
        }
      });
    }
  }
}

TEST(ABufferReducesIntoItself) {
  for (const DType dtype : kTypes) {
    for (const ReduceOp op : kOps) {
      if (FindReduce(dtype, op) == nullptr) continue;
      WithStorage(dtype, [&](auto zero) {
        using T = decltype(zero);
        std::mt19937_64 random(3);
        std::vector<T> data(1023);
        for (T& value : data) value = Sample<T>(dtype, random);
        const std::vector<T> before = data;
        FindReduce(dtype, op)(data.data(), data.data(), data.size());
        size_t wrong = 0;
        for (size_t i = 0; i < data.size(); ++i) {
          wrong += !Same(dtype, op, data[i], Expected(dtype, op, before[i], before[i]));
        }
        EXPECT_EQ(wrong, 0);
      });
    }
  }
}

// All pairs of a pattern with some others, so that vector code meets every pattern.
TEST(EveryHalfPatternReduces) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    for (const ReduceOp op : kOps) {
      std::vector<uint16_t> all(65536);
      for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
      for (const uint16_t other : {0x0000, 0x0001, 0x3c00, 0x7bff, 0xfc00, 0x7fc0, 0x8400}) {
        std::vector<uint16_t> to(all.size(), other);
        FindReduce(dtype, op)(all.data(), to.data(), to.size());
        size_t wrong = 0;
        for (size_t i = 0; i < to.size(); ++i) {
          wrong += !Same(dtype, op, to[i], Expected(dtype, op, other, all[i]));
        }
        EXPECT_EQ(wrong, 0);
      }
    }
  }
}

TEST(OpsWithoutAMeaningHaveNoFunction) {
  for (const DType dtype : kTypes) {
    EXPECT_TRUE(FindReduce(dtype, ReduceOp::kAdasum) == nullptr);
    for (const ReduceOp op : kOps) {
      const bool meaning = dtype != DType::kBool || op != ReduceOp::kAverage;
      EXPECT_EQ(FindReduce(dtype, op) != nullptr, meaning);
    }
  }
}

TEST(AnyByteButZeroIsTrue) {
  const std::vector<uint8_t> from = {2, 4, 0, 255};
  std::vector<uint8_t> to = {1, 0, 0, 254};
  FindReduce(DType::kBool, ReduceOp::kSum)(from.data(), to.data(), to.size());
  EXPECT_EQ(to, (std::vector<uint8_t>{1, 1, 0, 1}));
  to = {1, 0, 0, 254};
  FindReduce(DType::kBool, ReduceOp::kMin)(from.data(), to.data(), to.size());
  EXPECT_EQ(to, (std::vector<uint8_t>{1, 0, 0, 1}));
}

// --- Scale -----------------------------------------------------------------------------------

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
      EXPECT_TRUE(Same(DType::kFloat32, ReduceOp::kSum, scaled_singles[i], singles[i] * third));
      const float average = static_cast<float>(static_cast<double>(singles[i]) * (1.0 / 3));
      EXPECT_TRUE(Same(DType::kFloat32, ReduceOp::kSum, averages[i], average));
      EXPECT_TRUE(Same(DType::kFloat64, ReduceOp::kSum, scaled_doubles[i], doubles[i] * (1.0 / 3)));
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
        wrong += !Same(dtype, ReduceOp::kSum, scaled[i], expected);
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

TEST(DTypesHaveCodesNamesAndSizes) {
  EXPECT_EQ(std::string(hvd::Name(DType::kBFloat16)), "bfloat16");
  EXPECT_EQ(std::string(hvd::Name(DType::kBool)), "bool");
  for (const DType dtype : kTypes) {
    EXPECT_TRUE(hvd::DTypeFromCode(static_cast<int>(dtype)) == dtype);
    WithStorage(dtype, [&](auto zero) { EXPECT_EQ(hvd::SizeOf(dtype), sizeof(zero)); });
  }
  EXPECT_FALSE(hvd::DTypeFromCode(-1).has_value());
  EXPECT_FALSE(hvd::DTypeFromCode(10).has_value());
}

}  // namespace
