#include "runtime/shared_buffers.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "base/alignment.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/allreduce.h"
#include "ops/broadcast.h"
#include "ops/mapped_allreduce.h"
#include "runtime/checks.h"
#include "runtime/process_sets.h"
#include "transport/subset_transport.h"

namespace hvd {
namespace {

// Buffers begin at different offsets of a page: loads from the one that follow stores to the same
// offset of another one wait for these.
constexpr size_t kStagger = 576;

size_t Stride(size_t bytes) { return RoundUp(bytes, kPage) + kStagger; }

// How a host's first rank tells the others where the file is; without one, the number is -1.
using KeyBytes = std::array<std::byte, sizeof(int64_t) * 2 + 16>;

KeyBytes Encode(const MemoryFileKey& key) {
  KeyBytes bytes;
  std::memcpy(bytes.data(), &key.pid, sizeof key.pid);
  std::memcpy(bytes.data() + 8, &key.fd, sizeof key.fd);
  std::memcpy(bytes.data() + 16, key.token.data(), key.token.size());
  return bytes;
}

MemoryFileKey Decode(const KeyBytes& bytes) {
  MemoryFileKey key;
  std::memcpy(&key.pid, bytes.data(), sizeof key.pid);
  std::memcpy(&key.fd, bytes.data() + 8, sizeof key.fd);
  std::memcpy(key.token.data(), bytes.data() + 16, key.token.size());
  return key;
}

enum Possible : uint8_t { kNoMemory, kNotShared, kShared };

// What is possible on all ranks.
Possible OnAll(Transport& transport, Possible own) {
  int32_t least = own;
  Allreduce(transport, {.source = &least,
                        .destination = &least,
                        .count = 1,
                        .dtype = DType::kInt32,
                        .op = ReduceOp::kMin});
  return static_cast<Possible>(least);
}

// Of this machine, what it can swap out included.
size_t MachineMemory() {
  struct sysinfo info{};
  if (::sysinfo(&info) != 0) return std::numeric_limits<size_t>::max();
  return (info.totalram + info.totalswap) * info.mem_unit;
}

// On all ranks, so that the job goes on.
[[noreturn]] void ThrowNoMemory(const Request& request, size_t bytes, size_t near) {
  throw Error(Error::Kind::kMismatch,
              StrCat("no memory for '", ShownName(request.name), "', of which each rank gets ",
                     bytes, " bytes: that is more than a machine has for its ranks (this one has ",
                     MachineMemory(), " bytes for ", near, ")"));
}

std::vector<int> GlobalRanks(const ProcessSet& set, const std::vector<int>& indices) {
  std::vector<int> ranks;
  ranks.reserve(indices.size());
  for (const int index : indices) ranks.push_back(set.ranks()[static_cast<size_t>(index)]);
  return ranks;
}

// The first of a host's ranks makes the file and tells the others where it is.
MemoryFile ShareFile(Transport& near, size_t bytes) {
  const auto exchange_key = [&near](const MemoryFileKey& key) {
    KeyBytes message = Encode(key);
    Broadcast(near, 0, message.data(), message.data(), message.size());
    return Decode(message);
  };
  if (near.rank() != 0) {
    const MemoryFileKey key = exchange_key({});
    if (key.fd < 0) throw Error(Error::Kind::kIo, "the first rank of the host could not make it");
    return MemoryFile::Open(key, bytes);
  }
  std::optional<MemoryFile> file;
  try {
    file = MemoryFile::Create(bytes);
  } catch (const Error&) {
    (void)exchange_key({});
    throw;
  }
  (void)exchange_key(file->key());
  return std::move(*file);
}

}  // namespace

SharedBuffer::SharedBuffer(int64_t id, std::vector<int> ranks, std::vector<int> neighbours,
                           size_t place, MemoryFile file, size_t bytes,
                           std::shared_ptr<std::atomic<int64_t>> reductions)
    : id_(id),
      ranks_(std::move(ranks)),
      neighbours_(std::move(neighbours)),
      place_(place),
      bytes_(bytes),
      file_(std::move(file)),
      reductions_(std::move(reductions)) {}

size_t SharedBuffer::FileBytes(size_t buffers, size_t bytes) { return buffers * Stride(bytes); }

size_t SharedBuffer::MostBytes(size_t buffers) {
  return (MemoryFile::MostBytes() / buffers - kStagger) / kPage * kPage;
}

std::byte* SharedBuffer::DataAt(size_t place) const {
  return file_.data() + place * Stride(bytes_);
}

std::byte* SharedBuffer::DataOf(int rank) const {
  const auto found = std::ranges::lower_bound(neighbours_, rank);
  return DataAt(static_cast<size_t>(found - neighbours_.begin()));
}

void SharedBuffer::Reserve() const { file_.Reserve(place_ * Stride(bytes_), bytes_); }

Output SharedBuffers::Allocate(const ProcessSet& set, const Request& request, int64_t id) {
  const TensorSpec& tensor = request.tensors.at(0);
  const size_t bytes = ByteCount(tensor);
  Transport& transport = set.transport();
  // What every rank can tell of itself; alone on its host, one can share where others do.
  const bool wanted = bytes != 0 && CanReduceMapped(transport) && transport.size() > 1;
  const size_t near = wanted ? transport.mapped_ranks().size() : 1;
  // Taking pages until the system ends a process would not say why.
  const bool fits = near * bytes <= MachineMemory();
  std::shared_ptr<SharedBuffer> buffer;
  std::string reason;
  if (wanted && fits) {
    try {
      buffer = Share(set, bytes, id);
    } catch (const Error& error) {
      if (error.kind() != Error::Kind::kIo) throw;
      reason = error.what();
    }
  }
  const Possible possible = OnAll(transport, !fits               ? kNoMemory
                                             : buffer == nullptr ? kNotShared
                                                                 : kShared);
  if (possible == kNoMemory) ThrowNoMemory(request, bytes, near);
  if (possible == kNotShared) buffer = nullptr;
  if (buffer != nullptr) buffer->CloseFile();
  if (!reason.empty()) {
    warn_(StrCat("the memory of '", ShownName(request.name), "', ", bytes,
                 " bytes, is not shared with the ",
                 "other ranks of this host, so that allreduces have to copy it: ", reason));
  }
  if (buffer == nullptr) {
    Output own = AllocateOutput(set.outputs(), tensor.dtype, tensor.shape);
    if (bytes != 0) std::memset(own.data.get(), 0, bytes);
    return own;
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(buffers_, [](const auto& item) { return item.second.expired(); });
    buffers_[buffer->data()] = buffer;
    any_.store(true, std::memory_order_release);
  }
  Output output;
  std::byte* const data = buffer->data();
  FreeOutput free;
  free.shared = std::move(buffer);
  output.data = {data, std::move(free)};
  output.shape = tensor.shape;
  output.dtype = tensor.dtype;
  return output;
}

// Throws Error (kIo) where that is not possible on this rank; the transport's own are of other
// kinds, or come again with the next message.
std::shared_ptr<SharedBuffer> SharedBuffers::Share(const ProcessSet& set, size_t bytes,
                                                   int64_t id) {
  Transport& transport = set.transport();
  const std::vector<int> mapped = transport.mapped_ranks();
  std::vector<int> neighbours = GlobalRanks(set, mapped);
  SubsetTransport near(transport, mapped);
  MemoryFile file = ShareFile(near, SharedBuffer::FileBytes(mapped.size(), bytes));
  auto buffer = std::make_shared<SharedBuffer>(id, set.ranks(), std::move(neighbours),
                                               static_cast<size_t>(near.rank()), std::move(file),
                                               bytes, reductions_);
  buffer->Reserve();
  return buffer;
}

void SharedBuffers::Locate(const ProcessSet& set, Request& request, std::vector<Memory>& memory) {
  request.numbers.clear();
  // Adaptive sums are not made where the tensors are.
  if (!any() || request.op == ReduceOp::kAdasum) return;
  bool found = false;
  std::vector<int64_t> numbers;
  for (size_t i = 0; i < request.tensors.size(); ++i) {
    const TensorSpec& tensor = request.tensors[i];
    const size_t bytes = ByteCount(tensor);
    // What is converted on its way is not reduced where it is.
    if (memory[i].source == memory[i].destination && bytes != 0 && !tensor.held) {
      memory[i].shared = Find(set, memory[i].source, bytes);
    }
    const SharedMemory& shared = memory[i].shared;
    const bool inside = shared.buffer != nullptr;
    numbers.push_back(inside ? shared.buffer->id() : -1);
    numbers.push_back(static_cast<int64_t>(shared.offset));
    found = found || inside;
  }
  if (found) request.numbers = std::move(numbers);
}

SharedMemory SharedBuffers::Find(const ProcessSet& set, const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  std::shared_ptr<const SharedBuffer> buffer;
  {
    const std::lock_guard lock(mutex_);
    const auto next = buffers_.upper_bound(begin);
    if (next == buffers_.begin()) return {};
    buffer = std::prev(next)->second.lock();
  }
  if (buffer == nullptr) return {};
  const auto offset = static_cast<size_t>(begin - buffer->data());
  if (offset >= buffer->bytes() || bytes > buffer->bytes() - offset) return {};
  if (!std::ranges::includes(buffer->ranks(), set.ranks())) return {};
  if (!CanReduceMapped(set.transport())) return {};
  return {std::move(buffer), offset};
}

}  // namespace hvd
