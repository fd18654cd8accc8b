// The kernels of one CPU level as a table of functions: what a kernels library exports, and the
// core calls.
//
// The core holds those of the baseline. Those of a higher level are a library of their own, in
// which everything but kernels would be the same again.
#ifndef HVD_KERNELS_TABLE_H_
#define HVD_KERNELS_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "kernels/adasum.h"
#include "kernels/reduce.h"

namespace hvd {

// Raised by every change of the table, and of what its functions take for granted.
constexpr uint32_t kKernelsVersion = 5;

struct KernelTable {
  uint32_t version;   // kKernelsVersion when it was compiled; stays first
  const char* level;  // that it was compiled for, as base/cpu.h names them; stays second
  // kernels/reduce.h; never called with kAverage.
  ReduceFn (*find_reduce)(DType dtype, ReduceOp op);
  SumScaledFn (*find_sum_scaled)(DType dtype);
  ReduceBothFn (*find_reduce_both)(DType dtype, ReduceOp op, double factor);
  // kernels/scale.h; only for types that are scalable.
  void (*scale)(DType dtype, double factor, void* data, size_t count, double divisor);
  // kernels/convert.h
  void (*convert)(DType from, DType to, const void* source, void* destination, size_t count);
  // kernels/adasum.h
  void (*add_inner_products)(DType dtype, const void* left, const void* right, size_t count,
                             InnerProducts& products);
  void (*combine_multiples)(DType dtype, double left_factor, void* left, double right_factor,
                            const void* right, size_t count);
  // kernels/stream_copy.h
  void (*stream)(std::byte* to, const std::byte* from, size_t bytes);
};

}  // namespace hvd

// Data, not a function: version and level can be looked at on a CPU that cannot run the kernels.
#define HVD_KERNELS_ENTRY "hvd_kernels"
extern "C" __attribute__((visibility("default"))) const hvd::KernelTable hvd_kernels;

#endif  // HVD_KERNELS_TABLE_H_
