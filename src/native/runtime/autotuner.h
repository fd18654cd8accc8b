// The search for parameters under which the job's traffic flows fastest, while it runs. Rank 0
// searches; what it chooses travels with the answers, so that it changes at the same operation on
// all ranks. Does no I/O.
#ifndef HVD_RUNTIME_AUTOTUNER_H_
#define HVD_RUNTIME_AUTOTUNER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/options.h"

namespace hvd {

// One measurement.
struct AutotuneSample {
  TunedParameters parameters;
  double score = 0;    // bytes for each microsecond
  bool final = false;  // the search is over, and these are what it has found
};

// Tries the values of one parameter after the other, each for one sample, that in use first, so
// that a search of few samples keeps nothing that is worse than the start. It keeps the best. Then
// what it has found and what it began with are measured in turns: of their medians the better one
// wins, so that a search that noise has misled changes nothing.
class Autotuner {
 public:
  using Clock = std::chrono::steady_clock;

  Autotuner(const AutotuneOptions& options, const TunedParameters& initial);

  // What is to be used now.
  const TunedParameters& parameters() const { return current_; }
  bool searching() const { return stage_ != Stage::kDone; }

  // An operation runs. Args: name: unnamed ones have one for all of a kind.
  void Add(const std::string& name, int64_t bytes);
  // All operations of one round have been added. Returns the sample that is complete with it; the
  // parameters may be others then.
  std::optional<AutotuneSample> EndRound(Clock::time_point now);

 private:
  enum class Stage : uint8_t { kWarmUp, kFusion, kGather, kCompare, kDone };

  void BeginStage(Stage stage);
  // Of the candidates.
  void PutFirst(const TunedParameters& parameters);
  void Judge(double score);
  void Finish();

  const AutotuneOptions options_;
  const TunedParameters initial_;
  TunedParameters current_;
  TunedParameters best_;
  double best_score_ = 0;
  Stage stage_ = Stage::kWarmUp;
  std::vector<TunedParameters> candidates_;  // of the stage, the first is being measured
  int samples_ = 0;
  std::vector<double> found_scores_;
  std::vector<double> initial_scores_;

  // Of the sample.
  std::optional<Clock::time_point> begin_;
  std::unordered_map<std::string, int> steps_;  // by name
  bool complete_ = false;
  int64_t bytes_ = 0;
};

}  // namespace hvd

#endif  // HVD_RUNTIME_AUTOTUNER_H_
