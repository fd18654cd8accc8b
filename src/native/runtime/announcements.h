// How a rank tells the coordinator what it asks for: in full, or by the number that the coordinator
// has given to an operation which all ranks have asked for alike before.
#ifndef HVD_RUNTIME_ANNOUNCEMENTS_H_
#define HVD_RUNTIME_ANNOUNCEMENTS_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <variant>

#include "base/wire.h"
#include "runtime/request.h"
#include "runtime/response.h"

namespace hvd {

// A request in full, or a number.
using Announcement = std::variant<Request, int64_t>;

class Announcements {
 public:
  void Announce(WireWriter& writer, const Request& request);
  static void Write(WireWriter& writer, const Announcement& announcement);
  // What Announce or Write has written.
  static Announcement Read(WireReader& reader);

  // Fills in the names of operations that the coordinator named by number, and learns new numbers.
  // Announces again, in full, what is on its way under one that a removed process set took along.
  // Throws Error (kIo) for a number that nobody has told.
  void Learn(Response& response, WireWriter& writer);

  // The coordinator has dropped a number. Announces again, in full, what is on its way under it.
  void Forget(int64_t id, WireWriter& writer);

 private:
  struct Known {
    Request request;
    int64_t id = -1;       // none while the coordinator has not given one
    bool pending = false;  // asked for, not answered
  };

  std::unordered_map<std::string, Known> known_;  // by OperationKey
  std::unordered_map<int64_t, std::string> keys_;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_ANNOUNCEMENTS_H_
