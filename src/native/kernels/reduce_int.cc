// Integers, which wrap around, and booleans.
#include <algorithm>
#include <type_traits>

#include "kernels/families.h"

namespace hvd {
namespace {

// Wide enough that neither a sum nor a product is computed in (signed) int after promotion.
template <typename T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t, std::make_unsigned_t<T>>;

struct Add {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) + static_cast<Wrapping<T>>(b));
  }
};

struct Multiply {
  template <typename T>
  static T Apply(T a, T b) {
    return static_cast<T>(static_cast<Wrapping<T>>(a) * static_cast<Wrapping<T>>(b));
  }
};

struct Least {
  template <typename T>
  static T Apply(T a, T b) {
    return std::min(a, b);
  }
};

struct Greatest {
  template <typename T>
  static T Apply(T a, T b) {
    return std::max(a, b);
  }
};

// Booleans arrive as bytes; any byte but 0 counts as true, and 1 is what leaves.
struct Or {
  static uint8_t Apply(uint8_t a, uint8_t b) { return (a | b) != 0 ? 1 : 0; }
};

struct And {
  static uint8_t Apply(uint8_t a, uint8_t b) {
    return static_cast<uint8_t>((a != 0 ? 1 : 0) & (b != 0 ? 1 : 0));
  }
};

template <typename T, typename Op>
void Reduce(const void* src, void* dst, size_t count) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  HVD_INDEPENDENT
  for (size_t i = 0; i < count; ++i) to[i] = Op::Apply(to[i], from[i]);
}

template <typename T>
ReduceFn Find(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      return Reduce<T, Add>;
    case ReduceOp::kMin:
      return Reduce<T, Least>;
    case ReduceOp::kMax:
      return Reduce<T, Greatest>;
    case ReduceOp::kProduct:
      return Reduce<T, Multiply>;
    default:
      return nullptr;
  }
}

ReduceFn FindBool(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
      return Reduce<uint8_t, Or>;
    case ReduceOp::kMin:
    case ReduceOp::kProduct:
      return Reduce<uint8_t, And>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceFn FindIntReduce(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::kUint8:
      return Find<uint8_t>(op);
    case DType::kInt8:
      return Find<int8_t>(op);
    case DType::kInt16:
      return Find<int16_t>(op);
    case DType::kInt32:
      return Find<int32_t>(op);
    case DType::kInt64:
      return Find<int64_t>(op);
    case DType::kBool:
      return FindBool(op);
    default:
      return nullptr;
  }
}

}  // namespace hvd
