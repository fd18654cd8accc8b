// How many messages a rank exchanges.
#ifndef HVD_TESTS_NATIVE_COUNTING_TRANSPORT_H_
#define HVD_TESTS_NATIVE_COUNTING_TRANSPORT_H_

#include <cstddef>

#include "transport/transport.h"

namespace hvd::test {

// A plain transport over another one, which outlives it.
class CountingTransport final : public Transport {
 public:
  explicit CountingTransport(Transport& wrapped) : wrapped_(wrapped) {}
  int rank() const override { return wrapped_.rank(); }
  int size() const override { return wrapped_.size(); }
  const char* name() const override { return "counted"; }
  void Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) override {
    ++messages;
    wrapped_.Exchange(to, out, from, in_bytes, sink);
  }

  int messages = 0;

 private:
  Transport& wrapped_;
};

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_COUNTING_TRANSPORT_H_
