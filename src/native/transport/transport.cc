#include "transport/transport.h"

#include <cstring>
#include <stdexcept>

namespace hvd {

void CopySink::Consume(ConstBytes bytes) {
  std::memcpy(destination_.data() + filled_, bytes.data(), bytes.size());
  filled_ += bytes.size();
}

void Transport::ExchangeWhole(int to, ConstBytes out, int from, MutableBytes in) {
  CopySink sink(in);
  Exchange(to, out, from, in.size(), sink);
}

BothProgress Transport::WorkAcross(int /*other*/, const Lent& /*lent*/, const NearWork& /*work*/) {
  throw std::logic_error("this transport's ranks do not reach into each other's memory");
}

void Transport::Send(int to, ConstBytes out) {
  CopySink nothing({});
  Exchange(to, out, to, 0, nothing);
}

void Transport::Receive(int from, MutableBytes in) {
  CopySink sink(in);
  Exchange(from, {}, from, in.size(), sink);
}

void Transport::Post(ConstBytes /*out*/) { throw std::logic_error("this transport does not post"); }

void Transport::Fetch(int /*from*/, size_t /*in_bytes*/, Sink& /*sink*/) {
  throw std::logic_error("this transport does not post");
}

}  // namespace hvd
