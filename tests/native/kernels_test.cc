// Reductions against slow references that share no code with them.
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "base/dtype.h"
#include "harness.h"
#include "kernel_values.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"

namespace {

using hvd::DType;
using hvd::FindReduce;
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

constexpr ReduceOp kOps[] = {ReduceOp::kAverage, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax,
                             ReduceOp::kProduct};

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
      // Of two zeros, the negative one is less.
      if (d == s) return std::signbit(d) == (op == ReduceOp::kMin) ? d : s;
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
    if (Same(dtype, to[i], expected) || wrong++ != 0) continue;
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
          wrong += !Same(dtype, data[i], Expected(dtype, op, before[i], before[i]));
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
          wrong += !Same(dtype, to[i], Expected(dtype, op, other, all[i]));
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
