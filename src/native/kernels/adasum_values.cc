#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/families.h"

namespace hvd {
namespace {

// As many sums of each product grow side by side at every CPU level, so that the order in which
// numbers are added is the same: two vectors' worth of the widest level's float64.
constexpr size_t kLanes = 16;

using Lanes = std::array<double, kLanes>;

double SumOf(const Lanes& lanes) {
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

template <typename T>
void AddProducts(const T* left, const T* right, size_t count, InnerProducts& products) {
  Lanes both{};
  Lanes lefts{};
  Lanes rights{};
  const auto add = [&](size_t i, size_t lane) {
    const auto a = static_cast<double>(left[i]);
    const auto b = static_cast<double>(right[i]);
    both[lane] += a * b;
    lefts[lane] += a * a;
    rights[lane] += b * b;
  };
  const size_t whole = count - count % kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (size_t i = whole; i < count; ++i) add(i, i - whole);
  products.both += SumOf(both);
  products.left += SumOf(lefts);
  products.right += SumOf(rights);
}

template <typename T>
void Combine(double left_factor, T* left, double right_factor, const T* right, size_t count) {
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) {
    left[i] = static_cast<T>(left_factor * static_cast<double>(left[i]) +
                             right_factor * static_cast<double>(right[i]));
  }
}

// As many elements of a 16-bit type are float32 ones for a moment: few enough to stay in the
// nearest cache.
constexpr size_t kTogether = 512;

// Calls `work(done, now, left, right)` for them, part after part.
template <typename Work>
void ForFloats(DType dtype, const void* left, const void* right, size_t count, const Work& work) {
  std::array<float, kTogether> left_floats;
  std::array<float, kTogether> right_floats;
  const auto* lefts = static_cast<const uint16_t*>(left);
  const auto* rights = static_cast<const uint16_t*>(right);
  for (size_t done = 0; done < count; done += kTogether) {
    const size_t now = std::min(kTogether, count - done);
    ConvertValues(dtype, DType::kFloat32, lefts + done, left_floats.data(), now);
    ConvertValues(dtype, DType::kFloat32, rights + done, right_floats.data(), now);
    work(done, now, left_floats.data(), right_floats.data());
  }
}

}  // namespace

void AddProductsOfValues(DType dtype, const void* left, const void* right, size_t count,
                         InnerProducts& products) {
  if (dtype == DType::kFloat32) {
    return AddProducts(static_cast<const float*>(left), static_cast<const float*>(right), count,
                       products);
  }
  if (dtype == DType::kFloat64) {
    return AddProducts(static_cast<const double*>(left), static_cast<const double*>(right), count,
                       products);
  }
  ForFloats(dtype, left, right, count,
            [&](size_t /*done*/, size_t now, const float* lefts, const float* rights) {
              AddProducts(lefts, rights, now, products);
            });
}

void CombineValues(DType dtype, double left_factor, void* left, double right_factor,
                   const void* right, size_t count) {
  if (dtype == DType::kFloat32) {
    return Combine(left_factor, static_cast<float*>(left), right_factor,
                   static_cast<const float*>(right), count);
  }
  if (dtype == DType::kFloat64) {
    return Combine(left_factor, static_cast<double*>(left), right_factor,
                   static_cast<const double*>(right), count);
  }
  ForFloats(
      dtype, left, right, count, [&](size_t done, size_t now, float* lefts, const float* rights) {
        Combine(left_factor, lefts, right_factor, rights, now);
        ConvertValues(DType::kFloat32, dtype, lefts, static_cast<uint16_t*>(left) + done, now);
      });
}

}  // namespace hvd
