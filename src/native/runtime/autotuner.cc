#include "runtime/autotuner.h"

#include <algorithm>
#include <utility>

namespace hvd {
namespace {

constexpr int64_t kKiB = 1024;
// Beyond the last one, tensors travel from where they are (fused_runs.h).
constexpr int64_t kFusionBytes[] = {0, 32 * kKiB, 64 * kKiB, 128 * kKiB, 256 * kKiB, 512 * kKiB};
constexpr std::chrono::microseconds kGatherTimes[] = {
    std::chrono::microseconds(0), std::chrono::microseconds(50), std::chrono::microseconds(100),
    std::chrono::microseconds(200), std::chrono::microseconds(400)};
// So many names are counted; a job that has more repeats some of them nevertheless.
constexpr size_t kMostCounted = 4096;

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Autotuner::Autotuner(const AutotuneOptions& options, const TunedParameters& initial)
    : options_(options), initial_(initial), current_(initial), best_(initial) {
  if (options_.warmup_samples == 0) BeginStage(Stage::kFusion);
}

void Autotuner::Add(const std::string& name, int64_t bytes) {
  if (!begin_) return;
  bytes_ += bytes;
  const auto known = steps_.find(name);
  if (known == steps_.end()) {
    if (steps_.size() < kMostCounted) steps_.emplace(name, 1);
    complete_ = complete_ || options_.steps_per_sample <= 1;
    return;
  }
  complete_ = complete_ || ++known->second >= options_.steps_per_sample;
}

std::optional<AutotuneSample> Autotuner::EndRound(Clock::time_point now) {
  if (!searching()) return std::nullopt;
  if (!begin_) {
    // What ran up to here may have begun under other parameters.
    begin_ = now;
    return std::nullopt;
  }
  if (!complete_ || now <= *begin_) return std::nullopt;
  const double microseconds = std::chrono::duration<double, std::micro>(now - *begin_).count();
  AutotuneSample sample{
      .parameters = current_, .score = static_cast<double>(bytes_) / microseconds, .final = false};
  begin_.reset();
  steps_.clear();
  complete_ = false;
  bytes_ = 0;
  Judge(sample.score);
  if (!searching()) {
    sample.parameters = current_;
    sample.score = best_score_;
    sample.final = true;
  }
  return sample;
}

void Autotuner::BeginStage(Stage stage) {
  stage_ = stage;
  candidates_.clear();
  if (stage == Stage::kFusion && !options_.tune_fusion) return BeginStage(Stage::kGather);
  if (stage == Stage::kGather && !options_.tune_gather) return BeginStage(Stage::kCompare);
  if (stage == Stage::kFusion) {
    for (const int64_t bytes : kFusionBytes) {
      candidates_.push_back(best_);
      candidates_.back().fusion_bytes = bytes;
    }
  } else if (stage == Stage::kGather) {
    for (const auto gather : kGatherTimes) {
      candidates_.push_back(best_);
      candidates_.back().gather_time = gather;
    }
  } else if (stage == Stage::kCompare) {
    if (best_ == initial_) return Finish();
    candidates_ = {best_};
  }
  if (stage != Stage::kCompare) PutFirst(best_);
  current_ = candidates_.front();
}

void Autotuner::PutFirst(const TunedParameters& parameters) {
  const auto known = std::find(candidates_.begin(), candidates_.end(), parameters);
  if (known != candidates_.end()) candidates_.erase(known);
  candidates_.insert(candidates_.begin(), parameters);
}

void Autotuner::Judge(double score) {
  ++samples_;
  if (stage_ == Stage::kWarmUp) {
    if (samples_ < options_.warmup_samples) return;
    samples_ = 0;
    if (!options_.tune_fusion && !options_.tune_gather) best_score_ = score;  // there is no other
    return BeginStage(Stage::kFusion);
  }
  const bool last = samples_ >= options_.most_samples;
  if (stage_ == Stage::kCompare) {
    (current_ == initial_ ? initial_scores_ : found_scores_).push_back(score);
    current_ = current_ == initial_ ? best_ : initial_;
    if (last) Finish();
    return;
  }
  if (score > best_score_) {
    best_score_ = score;
    best_ = current_;
  }
  if (last) return Finish();
  candidates_.erase(candidates_.begin());
  if (!candidates_.empty()) {
    current_ = candidates_.front();
    return;
  }
  // What the first stage has found is measured again in the second, beside its other values.
  if (stage_ == Stage::kFusion && options_.tune_gather) best_score_ = 0;
  BeginStage(stage_ == Stage::kFusion ? Stage::kGather : Stage::kCompare);
}

void Autotuner::Finish() {
  stage_ = Stage::kDone;
  current_ = best_;
  if (found_scores_.empty()) return;
  best_score_ = Median(found_scores_);
  if (initial_scores_.empty()) return;
  const double initial = Median(initial_scores_);
  if (best_score_ >= initial) return;
  current_ = initial_;
  best_score_ = initial;
}

}  // namespace hvd
