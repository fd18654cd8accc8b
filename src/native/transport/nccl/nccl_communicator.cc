#include "transport/nccl/nccl_communicator.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/polling.h"

namespace hvd {
namespace {

constexpr int kBytes = 0;  // ncclInt8

int TypeOrThrow(DType dtype) {
  if (const auto type = NcclType(dtype)) return *type;
  throw Error(Error::Kind::kInvalid, std::string("NCCL cannot reduce ") + Name(dtype) +
                                         " elements: convert them to another type first");
}

const std::byte* At(const void* memory, size_t offset) {
  return static_cast<const std::byte*>(memory) + offset;
}

std::byte* At(void* memory, size_t offset) { return static_cast<std::byte*>(memory) + offset; }

}  // namespace

std::optional<int> NcclType(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
      return 0;
    case DType::kUint8:
    case DType::kBool:
      return 1;
    case DType::kInt32:
      return 2;
    case DType::kInt64:
      return 4;
    case DType::kFloat16:
      return 6;
    case DType::kFloat32:
      return 7;
    case DType::kFloat64:
      return 8;
    case DType::kBFloat16:
      return 9;
    case DType::kInt16:
      break;
  }
  return std::nullopt;
}

// Calls between its construction and End run as one; an exception in between ends it as well.
class NcclCommunicator::Group {
 public:
  explicit Group(const NcclCommunicator& communicator) : communicator_(communicator) {
    communicator_.Finish(communicator_.library_->group_start(), "ncclGroupStart");
  }
  ~Group() {
    if (open_) communicator_.library_->group_end();
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // A call in it begins nothing yet.
  void Check(int result, const char* call) const {
    if (result != kNcclInProgress) communicator_.library_->Check(result, call);
  }
  void End() {
    open_ = false;
    communicator_.Finish(communicator_.library_->group_end(), "ncclGroupEnd");
  }

 private:
  const NcclCommunicator& communicator_;
  bool open_ = true;
};

NcclCommunicator::NcclCommunicator(std::shared_ptr<const NcclLibrary> library, NcclComm comm,
                                   int rank, int size, OnDevice on_device, const hvd::Abort& abort)
    : library_(std::move(library)),
      rank_(rank),
      size_(size),
      on_device_(std::move(on_device)),
      abort_(abort),
      comm_(comm) {}

NcclCommunicator::~NcclCommunicator() {
  BeginEnd();
  end_.Wait();
}

void NcclCommunicator::BeginEnd() noexcept {
  if (comm_ == nullptr) return;
  end_ = NcclEnd(library_, library_->destroy, std::exchange(comm_, nullptr), on_device_);
}

void NcclCommunicator::Finish(int result, const char* call) const {
  // Most have ended when they are asked for first; those that connect take milliseconds.
  Polling polling;
  while (result == kNcclInProgress) {
    abort_.ThrowIfTripped();
    polling.Pause();
    library_->Check(library_->async_error(comm_, &result), "ncclCommGetAsyncError");
  }
  library_->Check(result, call);
}

void NcclCommunicator::Allreduce(const void* source, void* destination, size_t count, DType dtype,
                                 NcclOp op, void* stream) {
  Finish(library_->all_reduce(source, destination, count, TypeOrThrow(dtype), static_cast<int>(op),
                              comm_, stream),
         "ncclAllReduce");
}

void NcclCommunicator::Broadcast(void* data, size_t bytes, int root, void* stream) {
  Finish(library_->broadcast(data, data, bytes, kBytes, root, comm_, stream), "ncclBroadcast");
}

void NcclCommunicator::Allgather(const void* source, void* destination,
                                 std::span<const size_t> parts, void* stream) {
  bool equal = true;
  for (const size_t part : parts) equal = equal && part == parts.front();
  if (equal) {
    return Finish(library_->all_gather(source, destination, parts.front(), kBytes, comm_, stream),
                  "ncclAllGather");
  }
  Group group(*this);
  size_t offset = 0;
  for (int root = 0; root < size_; ++root) {
    const size_t bytes = parts[static_cast<size_t>(root)];
    std::byte* place = At(destination, offset);
    const void* from = root == rank_ ? source : place;
    if (bytes > 0) {
      group.Check(library_->broadcast(from, place, bytes, kBytes, root, comm_, stream),
                  "ncclBroadcast");
    }
    offset += bytes;
  }
  group.End();
}

void NcclCommunicator::Reducescatter(const void* source, void* destination,
                                     std::span<const size_t> parts, DType dtype, NcclOp op,
                                     void* stream) {
  const int type = TypeOrThrow(dtype);
  bool equal = true;
  for (const size_t part : parts) equal = equal && part == parts.front();
  if (equal) {
    return Finish(library_->reduce_scatter(source, destination, parts.front(), type,
                                           static_cast<int>(op), comm_, stream),
                  "ncclReduceScatter");
  }
  Group group(*this);
  size_t offset = 0;
  for (int root = 0; root < size_; ++root) {
    const size_t count = parts[static_cast<size_t>(root)];
    if (count > 0) {
      group.Check(library_->reduce(At(source, offset * SizeOf(dtype)), destination, count, type,
                                   static_cast<int>(op), root, comm_, stream),
                  "ncclReduce");
    }
    offset += count;
  }
  group.End();
}

void NcclCommunicator::Alltoall(const void* source, std::span<const size_t> out, void* destination,
                                std::span<const size_t> in, void* stream) {
  Group group(*this);
  size_t out_offset = 0;
  size_t in_offset = 0;
  for (int peer = 0; peer < size_; ++peer) {
    const size_t out_bytes = out[static_cast<size_t>(peer)];
    const size_t in_bytes = in[static_cast<size_t>(peer)];
    if (out_bytes > 0) {
      group.Check(library_->send(At(source, out_offset), out_bytes, kBytes, peer, comm_, stream),
                  "ncclSend");
    }
    if (in_bytes > 0) {
      group.Check(
          library_->receive(At(destination, in_offset), in_bytes, kBytes, peer, comm_, stream),
          "ncclRecv");
    }
    out_offset += out_bytes;
    in_offset += in_bytes;
  }
  group.End();
}

void NcclCommunicator::CheckHealth() {
  if (comm_ == nullptr) return;
  int result = 0;
  library_->Check(library_->async_error(comm_, &result), "ncclCommGetAsyncError");
  if (result != kNcclInProgress) library_->Check(result, "NCCL");
}

void NcclCommunicator::BeginAbort() noexcept {
  if (comm_ == nullptr) return;
  end_ = NcclEnd(library_, library_->abort, std::exchange(comm_, nullptr), on_device_);
}

void NcclCommunicator::Abort() noexcept {
  BeginAbort();
  // A call that was in progress may enqueue something until then.
  if (abort_.tripped()) end_.Wait();
}

}  // namespace hvd
