#include "runtime/responses_below.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/control_messages.h"

namespace hvd {
namespace {

std::vector<int> Overlap(std::span<const int> below, std::span<const int> ranks) {
  std::vector<int> both;
  std::ranges::set_intersection(below, ranks, std::back_inserter(both));
  return both;
}

}  // namespace

void ResponsesBelow::Add(std::span<const int> ranks, std::span<const uint8_t> items) {
  for (size_t i = 0; i < links_.size(); ++i) {
    const std::vector<int>& below = links_[i].below;
    Batch& batch = batches_[i];
    if (below.size() == 1) {
      if (!std::ranges::binary_search(ranks, below.front())) continue;
    } else {
      std::vector<int> both = Overlap(below, ranks);
      if (both.empty()) continue;
      if (both != batch.ranks) {
        Send(i);
        batch.ranks = std::move(both);
      }
    }
    batch.items.Bytes(items);
    if (batch.items.size() >= kMessageBytes) Send(i);
  }
}

void ResponsesBelow::Send() {
  for (size_t i = 0; i < links_.size(); ++i) Send(i);
}

void ResponsesBelow::Send(size_t index) {
  ControlLink& link = links_[index];
  Batch& batch = batches_[index];
  const std::vector<uint8_t> items = std::exchange(batch.items, {}).Take();
  if (items.empty() || !link.connection.open()) return;
  if (link.below.size() == 1 || batch.ranks.size() == link.below.size()) {
    return link.connection.Queue(MessageType::kResponses, items);
  }
  WireWriter writer;
  WriteRanks(writer, batch.ranks);
  writer.Bytes(items);
  link.connection.Queue(MessageType::kAddressed, writer.bytes());
}

AddressedItems ReadAddressed(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  AddressedItems addressed{.ranks = ReadRanks(reader), .items = {}};
  addressed.items = reader.Bytes(reader.remaining());
  return addressed;
}

}  // namespace hvd
