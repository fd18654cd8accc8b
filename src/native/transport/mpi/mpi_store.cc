#include "transport/mpi/mpi_store.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/wire.h"
#include "transport/mpi/mpi_tags.h"

namespace hvd {
namespace {

constexpr size_t kLongestMessage = 4096;
// For a message on its way, before this rank does other work and calls MPI now and then only.
constexpr std::chrono::milliseconds kSendTime{50};
// For a receive that is not wanted any more: whether it has come is known at once.
constexpr std::chrono::seconds kReceiveEndTime{1};

}  // namespace

struct MpiStore::Incoming {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kLongestMessage);
  hvd_mpi_handle request{};
};

struct MpiStore::Outgoing {
  std::vector<uint8_t> bytes;
  std::vector<hvd_mpi_handle> requests;
};

MpiStore::MpiStore(const MpiJob& job, const Deadline& deadline) : job_(job), deadline_(deadline) {}

MpiStore::~MpiStore() {
  const MpiLibrary& mpi = job_.library();
  for (auto& message : sent_) {
    try {
      for (hvd_mpi_handle& request : message->requests) {
        mpi.Wait(&request, deadline_, "a rank has not taken a message");
      }
    } catch (const Error&) {
      // MPI may still read it.
      [[maybe_unused]] const Outgoing* left = message.release();
    }
  }
  if (incoming_ == nullptr) return;
  try {
    mpi->cancel(&incoming_->request);
    mpi.Wait(&incoming_->request, Deadline::After(kReceiveEndTime), "a receive does not end");
  } catch (const Error&) {
    // MPI may still write to it.
    [[maybe_unused]] const Incoming* left = incoming_.release();
  }
}

void MpiStore::Put(const std::string& key, const std::string& value) {
  std::vector<int> all(static_cast<size_t>(job_.size()));
  std::iota(all.begin(), all.end(), 0);
  PutFor(all, key, value);
}

void MpiStore::PutFor(const std::vector<int>& ranks, const std::string& key,
                      const std::string& value) {
  values_[key] = value;
  auto message = std::make_unique<Outgoing>();
  WireWriter writer;
  writer.String(key);
  writer.String(value);
  message->bytes = writer.Take();
  if (message->bytes.size() > kLongestMessage) {
    throw Error(Error::Kind::kInternal, "a value is too long for the store: " + key);
  }
  Outgoing& kept = *sent_.emplace_back(std::move(message));
  kept.requests.reserve(ranks.size());
  const MpiLibrary& mpi = job_.library();
  for (const int rank : ranks) {
    if (rank == job_.rank()) continue;
    hvd_mpi_handle request;
    mpi.Check(mpi->send(kept.bytes.data(), static_cast<int>(kept.bytes.size()), rank, kMpiStoreTag,
                        job_.communicator(), &request),
              "MPI_Isend");
    kept.requests.push_back(request);
  }
  SeeThrough(kept);
}

// MPI may have to connect to a rank first, which takes several calls on both sides.
void MpiStore::SeeThrough(Outgoing& message) {
  const Deadline soon = deadline_.Within(kSendTime);
  try {
    for (hvd_mpi_handle& request : message.requests) {
      job_.library().Wait(&request, soon, "a message is on its way");
    }
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kTimeout) throw;
  }
}

std::string MpiStore::Get(const std::string& key, const Deadline& deadline) {
  while (values_.find(key) == values_.end()) Receive(deadline, key);
  return values_[key];
}

// Waits for the next message, whatever it is about. One that comes later than that is not lost.
void MpiStore::Receive(const Deadline& deadline, const std::string& key) {
  const MpiLibrary& mpi = job_.library();
  if (incoming_ == nullptr) {
    auto message = std::make_unique<Incoming>();
    const auto capacity = static_cast<int>(message->bytes.size());
    mpi.Check(mpi->receive(message->bytes.data(), capacity, -1, kMpiStoreTag, job_.communicator(),
                           &message->request),
              "MPI_Irecv");
    incoming_ = std::move(message);
  }
  mpi.Wait(&incoming_->request, deadline, "no rank has put " + key);
  const auto message = std::move(incoming_);
  WireReader reader(message->bytes);
  const std::string found = reader.String(kLongestMessage);
  values_[found] = reader.String(kLongestMessage);
}

}  // namespace hvd
