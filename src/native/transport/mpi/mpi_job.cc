#include "transport/mpi/mpi_job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <future>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"
#include "transport/mpi/mpi_tags.h"

namespace hvd {
namespace {

constexpr size_t kSecretBytes = 32;

// What each rank tells all others, in bytes that need no order of their own.
struct Introduction {
  std::array<uint8_t, kSecretBytes> secret{};
  std::array<char, 256> machine{};
  std::array<char, 256> host{};
  std::array<Ipv4Network, 8> networks{};
};

void Copy(const std::string& text, std::array<char, 256>& field) {
  std::memcpy(field.data(), text.data(), std::min(text.size(), field.size() - 1));
}

// The work is not over when a wait for it is given up: MPI may still read and write its memory.
template <typename T, typename Body>
void WithMemory(std::unique_ptr<T> memory, const Body& body) {
  try {
    body(*memory);
  } catch (...) {
    (void)memory.release();
    throw;
  }
}

std::string HostName() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

// What the thread that makes a communicator of some ranks works on, even when nobody waits any
// more.
struct Creation {
  std::vector<int> ranks;
  hvd_mpi_handle communicator{};
  std::promise<int> code;
};

struct Duplication {
  hvd_mpi_handle communicator{};
  hvd_mpi_handle request{};
};

struct Gathering {
  Introduction own;
  std::vector<Introduction> all;
  hvd_mpi_handle request{};
};

}  // namespace

MpiPlace PlaceOf(int rank, const std::vector<MpiNeighbour>& ranks) {
  std::map<std::string, int> sizes;
  std::vector<int> local_ranks;
  local_ranks.reserve(ranks.size());
  for (const MpiNeighbour& neighbour : ranks) local_ranks.push_back(sizes[neighbour.identity()]++);
  const auto own = static_cast<size_t>(rank);
  MpiPlace place;
  place.local_rank = local_ranks[own];
  place.local_size = sizes[ranks[own].identity()];
  place.cross_size = 0;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (local_ranks[i] != place.local_rank) continue;
    if (i == own) place.cross_rank = place.cross_size;
    ++place.cross_size;
  }
  return place;
}

MpiJob::MpiJob(MpiLibrary library, MpiThreads wanted, const MpiRanks& ranks,
               const std::string& machine, const std::string& host, const Deadline& deadline)
    : library_(library) {
  library_.Initialize(wanted);
  threads_ = library_.threads();
  if (ranks.numbers.empty()) {
    Duplicate(ranks.communicator, deadline);
  } else {
    Choose(ranks.numbers, deadline);
  }
  library_.Check(library_->return_errors(communicator_), "MPI_Comm_set_errhandler");
  int size = 0;
  library_.Check(library_->rank(communicator_, &rank_), "MPI_Comm_rank");
  library_.Check(library_->size(communicator_, &size), "MPI_Comm_size");
  ranks_.resize(static_cast<size_t>(size));
  Introduce(machine, host, deadline);
}

void MpiJob::Duplicate(const void* parent, const Deadline& deadline) {
  WithMemory(std::make_unique<Duplication>(), [&](Duplication& copy) {
    library_.Check(library_->duplicate(parent, &copy.communicator, &copy.request), "MPI_Comm_idup");
    library_.Wait(&copy.request, deadline, "not all ranks of the MPI job have called init()");
    communicator_ = copy.communicator;
  });
}

void MpiJob::Choose(const std::vector<int>& numbers, const Deadline& deadline) {
  constexpr std::chrono::milliseconds kBetweenChecks{100};
  hvd_mpi_handle world{};
  library_->world(&world);
  int own = 0;
  int size = 0;
  library_.Check(library_->rank(world, &own), "MPI_Comm_rank");
  library_.Check(library_->size(world, &size), "MPI_Comm_size");
  for (const int rank : numbers) {
    if (rank >= 0 && rank < size) continue;
    throw Error(Error::Kind::kInvalid,
                StrCat("rank ", rank, " is none of the job's, which are 0 to ", size - 1));
  }
  if (std::find(numbers.begin(), numbers.end(), own) == numbers.end()) {
    throw Error(Error::Kind::kInvalid,
                StrCat("this process is rank ", own, " of ", size,
                       ", which is not among the ranks that are to form a job"));
  }
  const auto creation = std::make_shared<Creation>();
  creation->ranks = numbers;
  std::future<int> code = creation->code.get_future();
  const auto create = [library = library_, creation] {
    creation->code.set_value(library->create_group(
        creation->ranks.data(), static_cast<int>(creation->ranks.size()), &creation->communicator));
  };
  if (may_move_data()) {
    // MPI has no way to ask for such a communicator and wait for it later.
    std::thread(create).detach();
    while (code.wait_for(kBetweenChecks) != std::future_status::ready) {
      deadline.Check("not all ranks of the list have called init() with it");
    }
  } else {
    create();  // MPI may be called here alone
  }
  library_.Check(code.get(), "MPI_Comm_create_group");
  communicator_ = creation->communicator;
}

void MpiJob::Introduce(const std::string& machine, const std::string& host,
                       const Deadline& deadline) {
  WithMemory(std::make_unique<Gathering>(), [&](Gathering& gathering) {
    std::random_device random;
    for (uint8_t& byte : gathering.own.secret) byte = static_cast<uint8_t>(random());
    Copy(machine, gathering.own.machine);
    Copy(host.empty() ? HostName() : host, gathering.own.host);
    const std::vector<Ipv4Network> networks = HostNetworks();
    std::copy_n(networks.begin(), std::min(networks.size(), gathering.own.networks.size()),
                gathering.own.networks.begin());
    gathering.all.resize(ranks_.size());
    library_.Check(library_->all_gather(&gathering.own, gathering.all.data(), sizeof(Introduction),
                                        communicator_, &gathering.request),
                   "MPI_Iallgather");
    library_.Wait(&gathering.request, deadline, "not all ranks of the MPI job have come");
    for (size_t i = 0; i < ranks_.size(); ++i) {
      const Introduction& theirs = gathering.all[i];
      ranks_[i] = {theirs.machine.data(), theirs.host.data(), {}};
      std::copy_if(theirs.networks.begin(), theirs.networks.end(),
                   std::back_inserter(ranks_[i].networks),
                   [](const Ipv4Network& network) { return network.address != 0; });
    }
    const auto& secret = gathering.all[0].secret;
    secret_.assign(secret.begin(), secret.end());
  });
}

void MpiJob::Progress() const {
  int found = 0;
  library_.Check(library_->probe(kMpiStoreTag, communicator_, &found), "MPI_Iprobe");
}

std::string MpiJob::Address() const {
  std::vector<std::vector<Ipv4Network>> others;
  for (const MpiNeighbour& neighbour : ranks_) {
    if (neighbour.machine != own().machine) others.push_back(neighbour.networks);
  }
  if (others.empty()) return "127.0.0.1";
  return ReachableAddress(own().networks, others);
}

}  // namespace hvd
