#include "runtime/options.h"

#include "base/error.h"

namespace hvd {

std::string Version() { return HVD_VERSION; }

TransportChoice ParseTransportChoice(const std::string& text) {
  if (text == "auto") return TransportChoice::kAuto;
  if (text == "shm") return TransportChoice::kShm;
  if (text == "tcp") return TransportChoice::kTcp;
  if (text == "mpi") return TransportChoice::kMpi;
  throw Error(Error::Kind::kInvalid,
              "'" + text + "' is no transport; choose one of auto, shm, tcp, mpi");
}

}  // namespace hvd
