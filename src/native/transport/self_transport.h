// The communicator of a job of one rank: there is nobody to exchange bytes with.
#ifndef HVD_TRANSPORT_SELF_TRANSPORT_H_
#define HVD_TRANSPORT_SELF_TRANSPORT_H_

#include "base/error.h"
#include "transport/transport.h"

namespace hvd {

class SelfTransport : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  const char* name() const override { return "self"; }
  void Exchange(int, ConstBytes, int, size_t, Sink&) override {
    throw Error(Error::Kind::kInternal, "a job of one rank has no peers");
  }
};

}  // namespace hvd

#endif  // HVD_TRANSPORT_SELF_TRANSPORT_H_
