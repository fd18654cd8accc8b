#include "ops/device_collectives.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/alignment.h"
#include "base/error.h"

namespace hvd {
namespace {

// Tensors begin at multiples of it in the packed buffer, so that every one is copied in vectors.
constexpr size_t kAlignment = 16;

// Booleans are bytes of 0 and 1: their "or" is a maximum, their "and" a minimum.
NcclOp ToNccl(DType dtype, ReduceOp op) {
  const bool logical = dtype == DType::kBool;
  switch (op) {
    case ReduceOp::kSum:
      return logical ? NcclOp::kMax : NcclOp::kSum;
    case ReduceOp::kAverage:
      if (logical) break;
      return NcclOp::kSum;
    case ReduceOp::kMin:
      return NcclOp::kMin;
    case ReduceOp::kMax:
      return NcclOp::kMax;
    case ReduceOp::kProduct:
      return logical ? NcclOp::kMin : NcclOp::kProduct;
    case ReduceOp::kAdasum:
      break;
  }
  throw Error(Error::Kind::kInvalid,
              std::string("this reduction of ") + Name(dtype) + " elements does not run on a GPU");
}

}  // namespace

DeviceCollectives::DeviceCollectives(Driver& driver, const std::string& code_folder, int device)
    : driver_(driver), kernels_(driver, code_folder, device), stream_(driver) {}

std::byte* DeviceCollectives::Scratch(size_t bytes) {
  if (scratch_.bytes() < bytes) {
    // What is enqueued still uses the smaller one, and may never end if a rank has gone.
    if (scratch_.bytes() != 0) outgrown_.push_back(std::exchange(scratch_, DeviceMemory()));
    scratch_ = DeviceMemory(driver_, bytes);
  }
  return scratch_.data();
}

void DeviceCollectives::Rescale(DType dtype, double factor, double divisor,
                                std::span<const Piece> pieces) {
  if (factor != 1.0 || divisor != 1.0) {
    return kernels_.Scale(dtype, factor, divisor, pieces, stream_.get());
  }
  std::vector<Piece> bytes;
  for (const Piece& piece : pieces) {
    if (piece.source == piece.destination) continue;
    bytes.push_back({piece.source, piece.destination, piece.elements * SizeOf(dtype)});
  }
  kernels_.Copy(bytes, stream_.get());
}

void DeviceCollectives::AllreduceDirectly(const Piece& piece, const DeviceReduction& how,
                                          NcclOp op) {
  const bool scaled_before = how.prescale != 1.0;
  const bool scaled_after = how.postscale != 1.0 || how.divisor != 1.0;
  const Piece in_place{piece.destination, piece.destination, piece.elements};
  if (scaled_before) Rescale(how.dtype, how.prescale, 1.0, {&piece, 1});
  communicator_->Allreduce(scaled_before ? piece.destination : piece.source, piece.destination,
                           piece.elements, how.dtype, op, stream_.get());
  if (scaled_after) Rescale(how.dtype, how.postscale, how.divisor, {&in_place, 1});
}

void DeviceCollectives::Allreduce(std::span<const DeviceTensor> tensors,
                                  const DeviceReduction& how) {
  const NcclOp op = ToNccl(how.dtype, how.op);
  const auto is_zeros = [](const DeviceTensor& t) { return t.piece.source == nullptr; };
  const bool some_zeros = std::any_of(tensors.begin(), tensors.end(), is_zeros);
  if (tensors.size() == 1 && !tensors.front().held && !some_zeros) {
    return AllreduceDirectly(tensors.front().piece, how, op);
  }
  // By the type that they are converted from and to, if any.
  std::map<std::optional<DType>, std::vector<Piece>> pack;
  std::map<std::optional<DType>, std::vector<Piece>> unpack;
  const size_t item = SizeOf(how.dtype);
  size_t total = 0;
  for (const DeviceTensor& tensor : tensors)
    total = RoundUp(total, kAlignment) + tensor.piece.elements * item;
  std::byte* place = Scratch(total);
  if (some_zeros) driver_.Zero(place, total, stream_.get());
  for (const DeviceTensor& tensor : tensors) {
    const Piece& piece = tensor.piece;
    if (!is_zeros(tensor)) {
      pack[tensor.held].push_back({piece.source, place, piece.elements});
      unpack[tensor.held].push_back({place, piece.destination, piece.elements});
    }
    place += RoundUp(piece.elements * item, kAlignment);
  }
  // Nothing behind the last one: NCCL wants as many elements of every rank, and one that holds a
  // single tensor in the reduction's type sends it as it is.
  for (const auto& [held, pieces] : pack) {
    if (held) {
      kernels_.Convert(*held, how.dtype, how.prescale, 1.0, pieces, stream_.get());
    } else {
      Rescale(how.dtype, how.prescale, 1.0, pieces);
    }
  }
  communicator_->Allreduce(scratch_.data(), scratch_.data(), total / SizeOf(how.dtype), how.dtype,
                           op, stream_.get());
  for (const auto& [held, pieces] : unpack) {
    if (held) {
      kernels_.Convert(how.dtype, *held, how.postscale, how.divisor, pieces, stream_.get());
    } else {
      Rescale(how.dtype, how.postscale, how.divisor, pieces);
    }
  }
}

void DeviceCollectives::Broadcast(void* data, size_t bytes, int root) {
  communicator_->Broadcast(data, bytes, root, stream_.get());
}

void DeviceCollectives::Allgather(const void* source, void* destination,
                                  std::span<const size_t> parts) {
  communicator_->Allgather(source, destination, parts, stream_.get());
}

void DeviceCollectives::Alltoall(const void* source, std::span<const size_t> out, void* destination,
                                 std::span<const size_t> in) {
  communicator_->Alltoall(source, out, destination, in, stream_.get());
}

void DeviceCollectives::Reducescatter(const void* source, void* destination,
                                      std::span<const size_t> parts, const DeviceReduction& how) {
  const NcclOp op = ToNccl(how.dtype, how.op);
  const void* from = source;
  if (how.prescale != 1.0) {
    uint64_t count = 0;
    for (const size_t part : parts) count += part;
    std::byte* scaled = Scratch(count * SizeOf(how.dtype));
    const Piece piece{source, scaled, count};
    Rescale(how.dtype, how.prescale, 1.0, {&piece, 1});
    from = scaled;
  }
  communicator_->Reducescatter(from, destination, parts, how.dtype, op, stream_.get());
  const size_t own = parts[static_cast<size_t>(communicator_->rank())];
  const Piece result{destination, destination, own};
  Rescale(how.dtype, how.postscale, how.divisor, {&result, 1});
}

}  // namespace hvd
