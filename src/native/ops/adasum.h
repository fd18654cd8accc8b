// The adaptive sum of the ranks' vectors: what is orthogonal in two of them adds up, of what they
// have in common they give the mean.
//
// Source: Maleki et al., "Scaling Distributed Training with Adaptive Summation", MLSys 2021.
#ifndef HVD_OPS_ADASUM_H_
#define HVD_OPS_ADASUM_H_

#include <bit>
#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "kernels/adasum.h"
#include "transport/transport.h"

namespace hvd {

// By what two vectors are multiplied before they are added.
struct AdasumFactors {
  double left = 1;
  double right = 1;
};
AdasumFactors FactorsOf(const InnerProducts& products);

// Whether so many ranks make a binary tree, in which vectors are combined in pairs.
constexpr bool MakeBinaryTree(int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks));
}

struct AdasumOptions {
  const void* source = nullptr;
  void* destination = nullptr;     // may be `source`, but must not overlap it otherwise
  std::span<const size_t> counts;  // elements of each tensor there; each has a sum of its own
  DType dtype = DType::kFloat32;   // one of HasInnerProducts
  double prescale = 1.0;           // every rank's operand is multiplied by it
  double postscale = 1.0;          // the result is multiplied by it
  std::byte* room = nullptr;       // AdasumRoom bytes, aligned for any type
};

// Args: bytes: of all tensors.
size_t AdasumRoom(const Transport& transport, size_t bytes);

// All ranks end with the same bits. Rank 0's and 1's vectors are combined first, and so on, then
// these pairs'. Each rank combines a slice of all vectors, so that every element travels twice, as
// for a sum. Besides, the inner products of the slices are added up: 24 (n - 1) bytes a tensor.
// The number of ranks is one of MakeBinaryTree.
void Adasum(Transport& transport, const AdasumOptions& options);

}  // namespace hvd

#endif  // HVD_OPS_ADASUM_H_
