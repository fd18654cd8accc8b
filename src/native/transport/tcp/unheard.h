// Finding out that the way to another host has failed, where both still reach rank 0's.
#ifndef HVD_TRANSPORT_TCP_UNHEARD_H_
#define HVD_TRANSPORT_TCP_UNHEARD_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "base/str_cat.h"
#include "transport/socket.h"

namespace hvd {

// Of one wait.
class Unheard {
 public:
  // Args: silence: an other host counts as lost when it acknowledges nothing for twice as long; 0:
  // never.
  explicit Unheard(std::chrono::milliseconds silence) : silence_(silence) {}

  // How long to wait between two looks; none: for as long as it takes.
  int look_ms() const {
    const auto look = std::clamp<int64_t>(silence_.count() / 4, 100, 3'600'000);
    return silence_.count() != 0 ? static_cast<int>(look) : -1;
  }

  // After a wait of so long in which nothing has come. Throws Error (kPeerLost). Args: sockets:
  // that are waited for; null ones are not.
  void Look(std::span<const Socket* const> sockets) {
    const Socket* silent = nullptr;
    for (const Socket* each : sockets) {
      if (each != nullptr && each->Unheard(2 * silence_)) silent = each;
    }
    times_ = silent != nullptr ? times_ + 1 : 0;
    // Twice: after a pause of this host's own the others have a moment to be heard again.
    if (times_ < 2) return;
    throw Error(Error::Kind::kPeerLost, StrCat(silent->peer(),
                                               " acknowledges nothing on its data connection: "
                                               "the way between the two hosts has failed"));
  }

 private:
  const std::chrono::milliseconds silence_;
  int times_ = 0;
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_TCP_UNHEARD_H_
