// A rank dies, stops, or runs out of memory, at any step of anything that ranks do together, in
// every way that it runs: the others are told who it was, and nothing of the job is left in them.
//
//   deaths_test                        some steps of each, drawn from a fixed seed
//   deaths_test all STRIDE [PART]      every STRIDE-th step of those whose name holds the part
//   deaths_test memory SEED            an allocation fails, one drawn for each
//   deaths_test at PART VICTIM STEP [stop]
//                                      one step of the first whose name holds the part
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "deeds.h"
#include "failing_memory.h"
#include "forked_ranks.h"
#include "harness.h"
#include "ranks.h"
#include "steps.h"
#include "store_server.h"

namespace {

using hvd::Error;
using hvd::Runtime;
using hvd::StrCat;
using hvd::UniqueFd;
using hvd::test::allocations_left;
using hvd::test::Deed;
using hvd::test::Part;
using hvd::test::ReadLine;
using hvd::test::Say;
using hvd::test::Steps;
using hvd::test::Way;

// A process that hangs is ended; what it should have said is missed.
constexpr unsigned kMostSeconds = 100;
constexpr std::chrono::milliseconds kStartTime{5000};
// Longer than a rank that stops may hold up the others' hellos.
constexpr std::chrono::milliseconds kStartTimeWithStops{8000};
// Longer than a rank may have no core while many jobs run.
constexpr std::chrono::milliseconds kSilence{4000};

// The start and the end of a job are deeds too, which no runtime is there for.
enum class Phase : uint8_t { kStart, kWork, kEnd };
constexpr Deed kStart = {"start", hvd::test::SumFew};
constexpr Deed kEnd = {"end", hvd::test::SumFew};

struct Subject {
  const Deed* deed;
  const Way* way;
  Phase phase = Phase::kWork;

  std::string name() const { return StrCat(deed->name, " ", way->name); }
};

// One death.
struct Plan {
  Subject subject;
  int victim = 0;
  int signal = SIGKILL;
  bool memory = false;    // in place of the signal: the allocation of the number in `at.all` fails
  int rounds_before = 2;  // of the deed; what is done again is agreed on by its number
  // Of the deed that follows: at that place or step, or modulo what it has where `within`.
  Steps at = {};
  bool within = false;

  std::string name() const {
    const char* const what = memory ? " has no memory" : signal == SIGSTOP ? " stops" : " dies";
    return StrCat(subject.name(), ": rank ", victim, what, " after ", rounds_before,
                  " rounds at place ", at.places, ", step ", at.all);
  }
};

std::vector<Subject> Subjects() {
  std::vector<Subject> all;
  for (const Way& way : hvd::test::kWays) {
    for (const Deed& deed : hvd::test::kDeeds) all.push_back({&deed, &way});
    // Who does the work does not matter to these.
    const bool same =
        way.manner == hvd::test::Manner::kPolling || way.manner == hvd::test::Manner::kSeveral;
    if (same) continue;
    all.push_back({&kStart, &way, Phase::kStart});
    all.push_back({&kEnd, &way, Phase::kEnd});
  }
  return all;
}

hvd::RuntimeOptions OptionsOf(const Plan& plan, int rank, const std::string& store) {
  const Way& way = *plan.subject.way;
  auto options =
      hvd::test::ForkedOptions(rank, way.ranks, way.transport, hvd::ParseEndpoint(store));
  options.host = HostOf(way, rank);
  options.single_copy_bytes = way.single_copy_bytes;
  options.apart_bytes = 0;  // or it would depend on where the cores are
  options.local_size = way.ranks / way.hosts;
  options.control_fanout = way.control_fanout;
  if (plan.subject.phase == Phase::kStart) options.start_timeout = kStartTime;
  if (plan.signal != SIGSTOP) return options;
  options.heartbeat_timeout = kSilence;
  if (plan.subject.phase == Phase::kStart) options.start_timeout = kStartTimeWithStops;
  return options;
}

// Ends this process without more ado when it finds that there is none, as programs do.
void RunOutOfMemory(const Deed& deed, Part& part, int64_t allocation) {
  allocations_left = allocation;
  try {
    deed.act(part);
  } catch (const std::exception&) {
    ::kill(::getpid(), SIGKILL);
  }
  allocations_left = hvd::test::kAlwaysMemory;
}

// Says how many places and steps there were, if it lives.
void Die(const Plan& plan, const hvd::RuntimeOptions& options, const UniqueFd& report) {
  const Deed& deed = *plan.subject.deed;
  const Phase phase = plan.subject.phase;
  std::deque<std::vector<float>> memory;
  if (phase == Phase::kStart) hvd::test::CountSteps(plan.signal, plan.at);
  auto runtime = std::make_unique<Runtime>(options);
  if (phase != Phase::kStart) {
    Part part(*runtime, options.rank, *plan.subject.way, memory);
    Steps at = plan.at;
    for (int i = 0; i < plan.rounds_before; ++i) {
      hvd::test::CountSteps();
      memory.clear();
      allocations_left = hvd::test::kAlwaysMemory;
      deed.act(part);
      Steps whole = hvd::test::StopCounting();
      if (plan.memory) whole.all = hvd::test::kAlwaysMemory - allocations_left;
      if (!plan.within) continue;
      if (at.places != hvd::test::kNever) at.places = plan.at.places % whole.places + 1;
      if (at.all != hvd::test::kNever) at.all = plan.at.all % std::max<int64_t>(whole.all, 1) + 1;
    }
    memory.clear();
    if (plan.memory) {
      RunOutOfMemory(deed, part, at.all);
    } else {
      hvd::test::CountSteps(plan.signal, at);
      if (phase == Phase::kWork) deed.act(part);
    }
    if (phase == Phase::kEnd) runtime = nullptr;
  }
  const Steps lived = hvd::test::StopCounting();
  Say(report, StrCat("lived ", lived.places, " ", lived.all));
  ::kill(::getpid(), SIGKILL);
}

// What a job that has ended must not leave behind in a process, beside threads.
std::string Belongings() {
  std::ifstream maps("/proc/self/maps");
  size_t mapped = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:horovod") != std::string::npos) ++mapped;
  }
  return StrCat(hvd::test::OpenDescriptors(), " descriptors, ", mapped, " mappings");
}

// Repeats the deed until it fails, says how, asks for more, leaves the job, and says what is left.
void Survive(const Plan& plan, const hvd::RuntimeOptions& options, const UniqueFd& report) {
  std::thread([] {}).join();  // a sanitizer's own thread starts with the first
  const size_t threads_before = hvd::test::LiveThreads();
  const std::string before = Belongings();
  {
    std::deque<std::vector<float>> memory;
    std::vector<float> more(10);
    std::unique_ptr<Runtime> runtime;
    // At the end of a job, some come to it and some are still at work.
    const bool leaves = plan.subject.phase == Phase::kEnd && plan.at.places % 2 == 0;
    std::string text = "left";
    try {
      runtime = std::make_unique<Runtime>(options);
      Part part(*runtime, options.rank, *plan.subject.way, memory);
      for (int i = 0; !leaves || i < plan.rounds_before; ++i) {
        memory.clear();
        plan.subject.deed->act(part);
      }
    } catch (const Error& error) {
      text = error.what();
    }
    Say(report, text);
    if (runtime != nullptr && !leaves) {
      try {
        hvd::test::SumInPlace(*runtime, "more", more);
        text = "no error";
      } catch (const Error& error) {
        text = error.what();
      }
    }
    Say(report, text);
    if (runtime != nullptr) runtime->Shutdown();
  }
  const size_t threads = hvd::test::LiveThreads(threads_before);
  const std::string after = Belongings();
  Say(report, after == before && threads <= threads_before
                  ? "nothing left"
                  : StrCat(before, ", ", threads_before, " threads before, ", after, ", ", threads,
                           " threads after"));
}

// Whether it is one of several that have not come, as when another is late.
bool IsListed(int rank, const std::string& text) {
  const size_t end = text.find(" did not come");
  const size_t start = text.rfind("ranks ", end);
  if (end == std::string::npos || start == std::string::npos) return false;
  const std::string list = StrCat(", ", text.substr(start + 6, end - start - 6), ", ");
  return list.find(StrCat(", ", rank, ", ")) != std::string::npos;
}

bool NamesTheLost(const Plan& plan, const std::string& text, pid_t pid) {
  const std::string who = StrCat("rank ", plan.victim, " (host ",
                                 HostOf(*plan.subject.way, plan.victim), ", pid ", pid, ")");
  if (plan.memory && text.starts_with(who + " failed: ")) return true;
  if (text.starts_with(who + " was lost: ") &&
      text.ends_with("; call hvd.shutdown() and hvd.init() to go on")) {
    return true;
  }
  if (plan.subject.phase == Phase::kEnd) {
    return text.starts_with("Horovod has been shut down.") || text == "left";
  }
  // Who has not said hello is known by its number alone.
  return plan.subject.phase == Phase::kStart &&
         (text.find(who) != std::string::npos ||
          text.find(StrCat("rank ", plan.victim, " ")) != std::string::npos ||
          IsListed(plan.victim, text));
}

// Returns what the victim has counted when it has lived.
std::optional<Steps> Run(const Plan& plan) {
  const int ranks = plan.subject.way->ranks;
  hvd::test::Processes processes(ranks,
                                 [&](int rank, const UniqueFd& report, const UniqueFd& orders) {
                                   ::alarm(kMostSeconds);
                                   const auto options = OptionsOf(plan, rank, ReadLine(orders));
                                   if (rank == plan.victim) {
                                     Die(plan, options, report);
                                   } else {
                                     Survive(plan, options, report);
                                   }
                                 });
  const hvd::test::StoreServer server(hvd::test::SecretOfForked());
  for (int rank = 0; rank < ranks; ++rank) {
    processes.Order(rank, hvd::ToString(server.endpoint()));
  }
  const auto complain = [&](int rank, const std::string& text) {
    hvd::test::Report(__FILE__, __LINE__,
                      StrCat(plan.name(), "; rank ", rank, ": ", text.empty() ? "hangs" : text));
  };
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == plan.victim) continue;
    for (int i = 0; i < 2; ++i) {
      const std::string text = processes.Report(rank);
      if (!NamesTheLost(plan, text, processes.pid(plan.victim))) complain(rank, text);
    }
    const std::string left = processes.Report(rank);
    if (left != "nothing left") complain(rank, left);
  }
  processes.KillRank(plan.victim);
  const std::string last = processes.Report(plan.victim);
  Steps lived;
  if (std::sscanf(last.c_str(), "lived %ld %ld", &lived.places, &lived.all) == 2) return lived;
  if (!last.empty()) complain(plan.victim, last);
  return std::nullopt;
}

// Runs every piece of work once, in several processes at a time. Returns whether all were well.
template <typename Work, typename Do>
bool InProcesses(size_t count, const std::vector<Work>& work, const Do& act) {
  std::vector<pid_t> pids;
  for (size_t first = 0; first < count; ++first) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      for (size_t i = first; i < work.size(); i += count) act(work[i]);
      std::fflush(nullptr);
      ::_exit(hvd::test::Failures() == 0 ? 0 : 1);
    }
    pids.push_back(pid);
  }
  bool well = true;
  for (const pid_t pid : pids) {
    int status = 0;
    well = ::waitpid(pid, &status, 0) == pid && status == 0 && well;
  }
  return well;
}

// Kills at every place in turn, until the victim lives.
void Sweep(const Subject& subject, int64_t stride) {
  std::vector<int> victims = {0, subject.way->ranks - 1};
  if (subject.way->collecting_rank) victims.push_back(*subject.way->collecting_rank);
  for (const int victim : victims) {
    Plan plan{.subject = subject, .victim = victim};
    for (const int before : {0, 2}) {
      plan.rounds_before = before;
      std::optional<Steps> lived;
      int64_t deaths = 0;
      for (plan.at = {1, hvd::test::kNever}; !lived; plan.at.places += stride, ++deaths) {
        lived = Run(plan);
      }
      int64_t more = 0;
      for (plan.at = {hvd::test::kNever, 1}; more < deaths && plan.at.all < lived->all; ++more) {
        (void)Run(plan);
        plan.at.all += std::max<int64_t>(lived->all / deaths, 1);
      }
      std::printf(
          "%s, rank %d after %d rounds: %ld deaths at %ld places and %ld steps, %d faults\n",
          subject.name().c_str(), plan.victim, before, deaths - 1 + more, lived->places, lived->all,
          hvd::test::Failures().load());
      std::fflush(stdout);
      if (subject.phase == Phase::kStart) break;
    }
  }
}

// Of each subject, some steps.
std::vector<Plan> Draw(int signal, size_t each, size_t stride, uint64_t seed = 7) {
  std::mt19937_64 random(seed);
  std::vector<Plan> plans;
  const std::vector<Subject> subjects = Subjects();
  for (size_t i = 0; i < subjects.size(); i += stride) {
    const Subject& subject = subjects[i];
    for (size_t k = 0; k < each; ++k) {
      const auto number = static_cast<int64_t>(random() >> 8);
      Plan plan{.subject = subject,
                .victim = static_cast<int>(random() % static_cast<uint64_t>(subject.way->ranks)),
                .signal = signal};
      plan.at = random() % 2 == 0 ? Steps{.places = number, .all = hvd::test::kNever}
                                  : Steps{.places = hvd::test::kNever, .all = number};
      plan.within = true;
      // A start cannot be counted beforehand: it has some two thousand places.
      if (subject.phase == Phase::kStart) plan.at = {number % 1800 + 1, hvd::test::kNever};
      plans.push_back(plan);
    }
  }
  return plans;
}

}  // namespace

TEST(ARankDiesAtAnyStepOfAnything) {
  EXPECT_TRUE(InProcesses(2, Draw(SIGKILL, 1, 1), [](const Plan& plan) { (void)Run(plan); }));
}

TEST(ARankStopsAtAnyStepOfAnything) {
  EXPECT_TRUE(InProcesses(12, Draw(SIGSTOP, 1, 5), [](const Plan& plan) { (void)Run(plan); }));
}

// One allocation of each kind of operation.
bool RunOutOfMemoryAnywhere(uint64_t seed) {
  std::vector<Plan> plans;
  for (Plan& plan : Draw(SIGKILL, 1, 1, seed)) {
    if (plan.subject.phase != Phase::kWork) continue;
    plan.memory = true;
    plan.at = {hvd::test::kNever, std::min(plan.at.places, plan.at.all)};
    plans.push_back(plan);
  }
  return InProcesses(2, plans, [](const Plan& plan) { (void)Run(plan); });
}

int main(int argc, char** argv) {
  const std::string mode = argc > 2 ? argv[1] : "";
  if (mode == "memory") return RunOutOfMemoryAnywhere(std::strtoull(argv[2], nullptr, 10)) ? 0 : 1;
  if (mode != "all" && mode != "at") return hvd::test::RunAll(argc, argv);
  std::vector<Subject> subjects = Subjects();
  const char* part = argv[mode == "all" ? std::min(3, argc) : 2];
  std::erase_if(subjects, [&](const Subject& subject) {
    return part != nullptr && subject.name().find(part) == std::string::npos;
  });
  if (mode == "at") {
    if (argc < 5 || subjects.empty()) return 2;
    Plan plan{.subject = subjects.front(), .victim = std::atoi(argv[3])};
    plan.at = {std::atoll(argv[4]), hvd::test::kNever};
    if (argc > 5) plan.signal = SIGSTOP;
    (void)Run(plan);
    return hvd::test::Failures() == 0 ? 0 : 1;
  }
  const int64_t stride = std::max<int64_t>(std::atoll(argv[2]), 1);
  const bool well =
      InProcesses(2, subjects, [&](const Subject& subject) { Sweep(subject, stride); });
  std::printf("%s\n", well ? "all fine" : "FAILED: see above");
  return well ? 0 : 1;
}
