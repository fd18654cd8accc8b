#include "runtime/gpu_meeting.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/shortened.h"
#include "base/str_cat.h"
#include "ops/allgather.h"

namespace hvd {
namespace {

// What a rank tells the others, in bytes that need no order of their own.
struct Status {
  std::array<char, 1024> problem{};  // ends with a zero
  NcclUniqueId id{};                 // rank 0's, before NCCL starts
  bool answered = false;             // NCCL has, whatever it said
};

void Copy(const std::string& text, std::array<char, 1024>& field) {
  const std::string shown = Shortened(text, field.size() - 1);
  std::memcpy(field.data(), shown.data(), shown.size());
}

// Everybody's, which are the same on all ranks. Throws Error (kMismatch) when one has a problem.
std::vector<Status> Exchange(const ProcessSet& set, const Status& own) {
  const auto ranks = static_cast<size_t>(set.size());
  std::vector<Status> all(ranks, own);
  if (ranks > 1) {
    const std::vector<size_t> sizes(ranks, sizeof(Status));
    Allgather(set.transport(), &own, sizes, all.data());
  }
  std::string problems;
  for (size_t i = 0; i < ranks; ++i) {
    if (all[i].problem.front() == 0) continue;
    problems += StrCat(problems.empty() ? "" : "; ", "rank ", set.ranks()[i],
                       " cannot take part in operations on GPUs: ", all[i].problem.data());
  }
  if (!problems.empty()) throw Error(Error::Kind::kMismatch, problems);
  return all;
}

}  // namespace

std::unique_ptr<NcclCommunicator> MeetOnGpus(const ProcessSet& set,
                                             std::shared_ptr<const NcclLibrary> nccl,
                                             const std::string& problem, OnDevice on_device,
                                             const Abort& abort) {
  constexpr std::chrono::milliseconds kLongest{100};
  Status own;
  Copy(problem, own.problem);
  if (problem.empty() && set.transport().rank() == 0) {
    try {
      nccl->Check(nccl->get_unique_id(&own.id), "ncclGetUniqueId");
    } catch (const Error& error) {
      Copy(error.what(), own.problem);
    }
  }
  const NcclUniqueId id = Exchange(set, own).front().id;
  NcclStart start(std::move(nccl), id, set.transport().rank(), set.size(), std::move(on_device),
                  abort);
  std::chrono::milliseconds pause{1};
  while (true) {
    own.answered = start.Wait(pause);
    if (own.answered) Copy(start.failure(), own.problem);
    const std::vector<Status> all = Exchange(set, own);
    if (std::all_of(all.begin(), all.end(), [](const Status& s) { return s.answered; })) {
      return start.Take();
    }
    pause = std::min(pause * 2, kLongest);
  }
}

}  // namespace hvd
