#include "runtime/control_setup.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "base/descriptors.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "base/wire.h"
#include "runtime/setup_calls.h"

namespace hvd {
namespace {

bool OnThisHost(const TransportSetup& setup, int rank) {
  const auto& rows = setup.table.rows;
  return rows[static_cast<size_t>(rank)].host == rows[static_cast<size_t>(setup.options.rank)].host;
}

Socket CallParent(const TransportSetup& setup, size_t parent) {
  try {
    return MakeCall(setup, parent, CallKind::kControl);
  } catch (const Error& error) {
    if (error.kind() == Error::Kind::kInterrupted) throw;
    throw Error(error.kind(), StrCat(error.what(),
                                     "; with HOROVOD_CONTROL_FANOUT=0, ranks need to reach rank 0 "
                                     "alone to agree on what to run"));
  }
}

NearAddress ReceiveNearAddress(Connection& parent, const Deadline& deadline) {
  try {
    const auto payload = parent.Receive(MessageType::kNear, deadline);
    WireReader reader(payload);
    return ReadNearAddress(reader);
  } catch (const Error& error) {
    // It has failed, or another rank has; rank 0 knows.
    if (error.kind() == Error::Kind::kIo) throw Error(Error::Kind::kPeerLost, error.what());
    throw;
  }
}

// Until all children have called.
void TakeControlCalls(const TransportSetup& setup, const std::vector<int>& children) {
  while (true) {
    std::vector<size_t> missing;
    for (const int child : children) {
      if (!setup.control.contains(child)) missing.push_back(static_cast<size_t>(child));
    }
    if (missing.empty()) return;
    Call call = TakeCall(setup, missing);
    if (call.kind != CallKind::kControl) continue;
    setup.control.insert_or_assign(static_cast<int>(call.rank), std::move(call.socket));
  }
}

}  // namespace

ControlConnections::ControlConnections(const TransportSetup& setup, const ControlTree& tree) {
  const int parent = tree.parent();
  if (parent < 0) return;
  if (parent > 0) {
    up_.emplace(CallParent(setup, static_cast<size_t>(parent)));
    if (OnThisHost(setup, parent)) {
      const int64_t pid = setup.table.rows[static_cast<size_t>(parent)].peer.pid;
      near_up_ = ConnectNear(ReceiveNearAddress(*up_, setup.deadline), setup.options.rank, pid);
    }
  }
  const std::vector<int> children = tree.Children();
  if (children.empty()) return;
  // Two connections for a while, or one and the process of a rank on this host.
  AllowDescriptors(2 * children.size(), "a rank that collects what others ask for");
  TakeControlCalls(setup, children);
  listener_.emplace(static_cast<int>(children.size()));
  WireWriter address;
  Write(address, listener_->address());
  for (const int child : children) {
    Connection connection(std::move(setup.control.at(child)));
    if (OnThisHost(setup, child)) {
      connection.Send(MessageType::kNear, address.bytes(), setup.deadline);
    }
    below_.emplace(child, std::move(connection));
  }
}

std::optional<Connection> ControlConnections::TakeUp() {
  if (up_ && near_up_) up_->GoOver(std::move(*near_up_));
  return std::move(up_);
}

std::map<int, Connection> ControlConnections::TakeBelow() {
  if (!listener_) return {};
  for (auto& [rank, socket] : listener_->Accept()) {
    if (const auto place = below_.find(rank); place != below_.end()) {
      place->second.GoOver(std::move(socket));
    }
  }
  return std::move(below_);
}

}  // namespace hvd
