// Responses on their way to the ranks below one: each gets its own, in order, and a link that leads
// to several carries what concerns them once.
#ifndef HVD_RUNTIME_RESPONSES_BELOW_H_
#define HVD_RUNTIME_RESPONSES_BELOW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/wire.h"
#include "runtime/control_link.h"

namespace hvd {

class ResponsesBelow {
 public:
  // Args: links: those that lead down carry what is added.
  explicit ResponsesBelow(std::vector<ControlLink>& links)
      : links_(links), batches_(links.size()) {}

  // Args: ranks: of the job, ascending. items: as they are in a message of kResponses.
  void Add(std::span<const int> ranks, std::span<const uint8_t> items);
  // Queues all that was added.
  void Send();

 private:
  struct Batch {
    std::vector<int> ranks;  // of a link that leads to several
    WireWriter items;
  };

  void Send(size_t index);

  std::vector<ControlLink>& links_;
  std::vector<Batch> batches_;  // by link
};

// What a message of kAddressed holds.
struct AddressedItems {
  std::vector<int> ranks;  // ascending
  std::span<const uint8_t> items;
};

// Throws Error (kIo) for anything that ResponsesBelow would not have queued.
AddressedItems ReadAddressed(std::span<const uint8_t> payload);

}  // namespace hvd

#endif  // HVD_RUNTIME_RESPONSES_BELOW_H_
