#include "ops/adasum.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/scale.h"
#include "ops/allgather.h"
#include "ops/allreduce.h"
#include "ops/alltoall.h"
#include "ops/parts.h"

namespace hvd {
namespace {

// Up to here every rank combines whole vectors: that takes one step, in place of two and one for
// each level of the tree.
constexpr size_t kCombinedWhole = size_t{16} << 10;
constexpr size_t kCombinedWholeOfAll = size_t{128} << 10;

bool CombinesWholes(const Transport& transport, size_t bytes) {
  return bytes <= kCombinedWhole &&
         bytes * static_cast<size_t>(transport.size()) <= kCombinedWholeOfAll;
}

// What a rank has of one tensor. In elements.
struct TensorSlice {
  size_t tensor;
  size_t offset;  // of the rank's slice
  size_t count;
};

// What of the tensors lies in so many elements, from the `begin`-th on.
std::vector<TensorSlice> SlicesOf(std::span<const size_t> counts, size_t begin, size_t count) {
  std::vector<TensorSlice> slices;
  size_t tensor_begin = 0;
  for (size_t tensor = 0; tensor < counts.size(); ++tensor) {
    const size_t first = std::max(begin, tensor_begin);
    const size_t end = std::min(begin + count, tensor_begin + counts[tensor]);
    if (first < end) slices.push_back({tensor, first - begin, end - first});
    tensor_begin += counts[tensor];
  }
  return slices;
}

// One slice of the vectors of all ranks, one behind the other, which become one.
class SlicedVectors {
 public:
  SlicedVectors(const AdasumOptions& options, size_t ranks, size_t begin, size_t count)
      : dtype_(options.dtype),
        ranks_(ranks),
        tensors_(options.counts.size()),
        bytes_(count * SizeOf(options.dtype)),
        vectors_(options.room),
        slices_(SlicesOf(options.counts, begin, count)) {}

  // Into the first one. Args: complete: makes the products of slices those of all ranks' slices.
  template <typename Complete>
  void Combine(const Complete& complete) {
    for (size_t distance = 1; distance < ranks_; distance *= 2) {
      std::vector<InnerProducts> products(ranks_ / (2 * distance) * tensors_);
      ForEachPair(distance, [&](size_t pair, const TensorSlice& slice, void* left, void* right) {
        AddInnerProducts(dtype_, left, right, slice.count,
                         products[pair * tensors_ + slice.tensor]);
      });
      complete(products);
      ForEachPair(distance, [&](size_t pair, const TensorSlice& slice, void* left, void* right) {
        const AdasumFactors factors = FactorsOf(products[pair * tensors_ + slice.tensor]);
        CombineMultiples(dtype_, factors.left, left, factors.right, right, slice.count);
      });
    }
  }

 private:
  template <typename Work>
  void ForEachPair(size_t distance, const Work& work) const {
    const size_t item = SizeOf(dtype_);
    for (size_t left = 0; left < ranks_; left += 2 * distance) {
      for (const TensorSlice& slice : slices_) {
        std::byte* const at = vectors_ + left * bytes_ + slice.offset * item;
        work(left / (2 * distance), slice, at, at + distance * bytes_);
      }
    }
  }

  const DType dtype_;
  const size_t ranks_;
  const size_t tensors_;
  const size_t bytes_;  // of the slice of one vector
  std::byte* const vectors_;
  const std::vector<TensorSlice> slices_;
};

// Args: products: of this rank's slices; then of whole tensors, to the same bits on all ranks.
void AddUp(Transport& transport, std::vector<InnerProducts>& products) {
  static_assert(sizeof(InnerProducts) == 3 * sizeof(double));
  Allreduce(transport, {.source = products.data(),
                        .destination = products.data(),
                        .count = 3 * products.size(),
                        .dtype = DType::kFloat64});
}

}  // namespace

AdasumFactors FactorsOf(const InnerProducts& products) {
  // What is shorter counts as nothing: its square has lost its digits.
  static const double kLeast = std::sqrt(std::numeric_limits<double>::min());
  AdasumFactors factors;
  if (products.left >= kLeast) factors.left = 1 - products.both / (2 * products.left);
  if (products.right >= kLeast) factors.right = 1 - products.both / (2 * products.right);
  return factors;
}

size_t AdasumRoom(const Transport& transport, size_t bytes) {
  const auto ranks = static_cast<size_t>(transport.size());
  const size_t each =
      CombinesWholes(transport, bytes) ? bytes : PartOf({.bytes = bytes}, 0, ranks).bytes;
  return ranks * each;
}

void Adasum(Transport& transport, const AdasumOptions& options) {
  const auto ranks = static_cast<size_t>(transport.size());
  const size_t item = SizeOf(options.dtype);
  const size_t count = std::reduce(options.counts.begin(), options.counts.end(), size_t{0});
  if (count == 0) return;
  if (CombinesWholes(transport, count * item)) {
    Allgather(transport, options.source, std::vector<size_t>(ranks, count * item), options.room);
    Scale(options.dtype, options.prescale, options.room, ranks * count);
    SlicedVectors(options, ranks, 0, count).Combine([](std::vector<InnerProducts>& /*whole*/) {});
    Scale(options.dtype, options.postscale, options.room, count);
    std::copy_n(options.room, count * item, static_cast<std::byte*>(options.destination));
    return;
  }
  const auto part_of = [&](size_t rank) { return PartOf({.bytes = count * item}, rank, ranks); };
  std::vector<size_t> parts(ranks);
  for (size_t rank = 0; rank < ranks; ++rank) parts[rank] = part_of(rank).bytes;
  const ByteRange own = part_of(static_cast<size_t>(transport.rank()));
  Alltoall(transport, options.source, parts, options.room, std::vector<size_t>(ranks, own.bytes),
           parts.front());
  Scale(options.dtype, options.prescale, options.room, ranks * own.bytes / item);
  SlicedVectors(options, ranks, own.offset / item, own.bytes / item)
      .Combine([&](std::vector<InnerProducts>& products) { AddUp(transport, products); });
  Scale(options.dtype, options.postscale, options.room, own.bytes / item);
  Allgather(transport, options.room, parts, options.destination);
}

}  // namespace hvd
