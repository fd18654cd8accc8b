// The kernels of one CPU level as a module that a test opens.
#ifndef HVD_TESTS_NATIVE_KERNEL_TABLE_H_
#define HVD_TESTS_NATIVE_KERNEL_TABLE_H_

#include <cstddef>

#include "base/dtype.h"
#include "kernels/reduce.h"

namespace hvd::test {

struct KernelTable {
  ReduceFn (*find_reduce)(DType dtype, ReduceOp op);
  void (*scale)(DType dtype, double factor, void* data, size_t count, double divisor);
};

using KernelTableEntry = const KernelTable* (*)();

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_KERNEL_TABLE_H_
