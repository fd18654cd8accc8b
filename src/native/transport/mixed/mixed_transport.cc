#include "transport/mixed/mixed_transport.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/thread_name.h"

namespace hvd {

MixedTransport::MixedTransport(int rank, Topology topology, std::unique_ptr<Abort> halt,
                               std::unique_ptr<Transport> near, std::unique_ptr<Transport> far)
    : rank_(rank),
      topology_(std::move(topology)),
      halt_(std::move(halt)),
      near_(std::move(near)),
      far_(std::move(far)),
      name_(std::string("shm+") + far_->name()) {}

MixedTransport::~MixedTransport() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (sender_.joinable()) sender_.join();
}

void MixedTransport::Exchange(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) {
  if (out.empty()) {
    if (in_bytes != 0) ReceiveFrom(from, in_bytes, sink);
    return;
  }
  if (in_bytes == 0) return SendTo(to, out);
  const bool to_near = topology_.SameHost(rank_, to);
  if (to_near != topology_.SameHost(rank_, from)) {
    return ExchangeBoth(to, out, from, in_bytes, sink);
  }
  if (to_near) {
    near_->Exchange(topology_.PlaceOf(to), out, topology_.PlaceOf(from), in_bytes, sink);
  } else {
    far_->Exchange(to, out, from, in_bytes, sink);
  }
}

size_t MixedTransport::PostBytesAmong(std::span<const int> ranks) const {
  const bool all = near_ && std::ranges::equal(ranks, topology_.Neighbours(rank_));
  return all ? near_->post_bytes() : 0;
}

void MixedTransport::SendTo(int to, ConstBytes out) {
  if (topology_.SameHost(rank_, to)) {
    near_->Send(topology_.PlaceOf(to), out);
  } else {
    far_->Send(to, out);
  }
}

void MixedTransport::ReceiveFrom(int from, size_t in_bytes, Sink& sink) {
  if (topology_.SameHost(rank_, from)) {
    const int place = topology_.PlaceOf(from);
    near_->Exchange(place, {}, place, in_bytes, sink);
  } else {
    far_->Exchange(from, {}, from, in_bytes, sink);
  }
}

// When one half fails, so must the other one: nobody else would end its wait.
void MixedTransport::ExchangeBoth(int to, ConstBytes out, int from, size_t in_bytes, Sink& sink) {
  {
    const std::lock_guard lock(mutex_);
    if (!sender_.joinable()) sender_ = std::thread([this] { RunSender(); });
    work_ = [this, to, out] { SendTo(to, out); };
    changed_.notify_all();
  }
  std::exception_ptr failure;
  try {
    ReceiveFrom(from, in_bytes, sink);
  } catch (const Error& error) {
    failure = std::current_exception();
    halt_->Trip(error);
  } catch (...) {
    failure = std::current_exception();
    halt_->Trip({Error::Kind::kInternal, "the other half of an exchange failed"});
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return work_ == nullptr; });
  if (failure == nullptr) failure = std::exchange(failure_, nullptr);
  if (failure != nullptr) std::rethrow_exception(failure);
}

void MixedTransport::RunSender() {
  NameThread("hvd-send");
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || work_ != nullptr; });
    if (work_ == nullptr) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      work_();
    } catch (const Error& error) {
      failure = std::current_exception();
      halt_->Trip(error);
    } catch (...) {
      failure = std::current_exception();
      halt_->Trip({Error::Kind::kInternal, "the other half of an exchange failed"});
    }
    lock.lock();
    failure_ = failure;
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace hvd
