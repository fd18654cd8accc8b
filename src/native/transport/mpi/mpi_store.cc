#include "transport/mpi/mpi_store.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/wire.h"
#include "transport/mpi/mpi_tags.h"

namespace hvd {
namespace {

constexpr size_t kLongestMessage = 4096;

struct Incoming {
  std::vector<uint8_t> bytes = std::vector<uint8_t>(kLongestMessage);
  hvd_mpi_handle request{};
};

}  // namespace

struct MpiStore::Outgoing {
  std::vector<uint8_t> bytes;
  std::vector<hvd_mpi_handle> requests;
};

MpiStore::MpiStore(const MpiJob& job, const Deadline& deadline) : job_(job), deadline_(deadline) {}

MpiStore::~MpiStore() {
  for (auto& message : sent_) {
    try {
      for (hvd_mpi_handle& request : message->requests) {
        job_.library().Wait(&request, deadline_, "a rank has not taken a message");
      }
    } catch (const Error&) {
      // MPI may still read it.
      [[maybe_unused]] const Outgoing* left = message.release();
    }
  }
}

void MpiStore::Put(const std::string& key, const std::string& value) {
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
  kept.requests.reserve(static_cast<size_t>(job_.size()));
  const MpiLibrary& mpi = job_.library();
  for (int rank = 0; rank < job_.size(); ++rank) {
    if (rank == job_.rank()) continue;
    hvd_mpi_handle request;
    mpi.Check(mpi->send(kept.bytes.data(), static_cast<int>(kept.bytes.size()), rank, kMpiStoreTag,
                        job_.communicator(), &request),
              "MPI_Isend");
    kept.requests.push_back(request);
  }
}

std::string MpiStore::Get(const std::string& key, const Deadline& deadline) {
  const MpiLibrary& mpi = job_.library();
  while (values_.find(key) == values_.end()) {
    auto message = std::make_unique<Incoming>();
    const auto capacity = static_cast<int>(message->bytes.size());
    mpi.Check(mpi->receive(message->bytes.data(), capacity, -1, kMpiStoreTag, job_.communicator(),
                           &message->request),
              "MPI_Irecv");
    try {
      mpi.Wait(&message->request, deadline, "no rank has put " + key);
    } catch (...) {
      mpi->cancel(&message->request);
      // It may have come in that moment.
      [[maybe_unused]] const Incoming* left = message.release();
      throw;
    }
    WireReader reader(message->bytes);
    const std::string found = reader.String(kLongestMessage);
    values_[found] = reader.String(kLongestMessage);
  }
  return values_[key];
}

}  // namespace hvd
