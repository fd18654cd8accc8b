#include "runtime/agreement.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/shortened.h"
#include "base/str_cat.h"
#include "runtime/unnamed_operations.h"

namespace hvd {
namespace {

constexpr size_t kLongestList = 500;

std::string ListText(const std::vector<int64_t>& numbers) {
  std::string text = "[";
  for (const int64_t number : numbers) text += StrCat(text.size() == 1 ? "" : ", ", number);
  return Shortened(text + "]", kLongestList);
}

std::string OneRank(const std::string& verb, const std::string& mine, const std::string& theirs) {
  return StrCat("One rank ", verb, " ", mine, ", but another rank ", verb, " ", theirs, ".");
}

bool FirstDimensionMayDiffer(OpKind kind) {
  return kind == OpKind::kAllgather || kind == OpKind::kAlltoall;
}

// Cut along the first dimension, which therefore has to be there.
bool NeedsRows(OpKind kind) {
  return FirstDimensionMayDiffer(kind) || kind == OpKind::kReducescatter;
}

std::string ShapeDifference(OpKind kind, const TensorSpec& a, const TensorSpec& b) {
  const std::string prefix = StrCat("Mismatched ", Name(kind), " tensor shapes: ");
  if (!FirstDimensionMayDiffer(kind)) {
    if (a.shape == b.shape) return "";
    return prefix + OneRank("sent a tensor of shape", ListText(a.shape), ListText(b.shape));
  }
  if (a.shape.size() != b.shape.size()) {
    return prefix +
           OneRank("sent a tensor of rank", StrCat(a.shape.size()), StrCat(b.shape.size()));
  }
  for (size_t i = 1; i < a.shape.size(); ++i) {
    if (a.shape[i] == b.shape[i]) continue;
    return prefix + OneRank(StrCat("sent a tensor with dimension ", i, " equal to"),
                            StrCat(a.shape[i]), StrCat(b.shape[i]));
  }
  return "";
}

std::string KindDifference(const Request& a, const Request& b) {
  if (a.kind == b.kind) return "";
  const auto article = [](OpKind kind) {
    const char first = Name(kind)[0];
    return StrCat(first == 'A' ? "an " : "a ", Name(kind));
  };
  return "Mismatched operations: " + OneRank("did", article(a.kind), article(b.kind));
}

std::string GroupDifference(const Request& a, const Request& b) {
  if (a.grouped == b.grouped && a.tensors.size() == b.tensors.size()) return "";
  const auto members = [](const Request& r) {
    return r.grouped ? StrCat("a group of ", r.tensors.size(), " tensors")
                     : std::string("a tensor without a group");
  };
  return StrCat("Mismatched ", Name(a.kind), " groups: ", OneRank("sent", members(a), members(b)));
}

std::string DeviceDifference(const Request& a, const Request& b) {
  if ((a.device == kCpu) == (b.device == kCpu)) return "";
  const auto device = [](const Request& r) {
    return std::string(r.device == kCpu ? "CPU" : "GPU");
  };
  return StrCat("Mismatched ", Name(a.kind),
                " CPU/GPU device selection: ", OneRank("specified device", device(a), device(b)));
}

std::string FactorDifference(const Request& a, const Request& b) {
  if (a.prescale == b.prescale && a.postscale == b.postscale) return "";
  const auto factors = [](const Request& r) {
    return StrCat("prescale ", r.prescale, " and postscale ", r.postscale);
  };
  return "Mismatched prescale and/or postscale factors: " + OneRank("had", factors(a), factors(b));
}

std::string NumbersDifference(const Request& a, const Request& b) {
  // Where memory lies decides how an allreduce runs, not whether.
  if (a.numbers == b.numbers || a.kind == OpKind::kAllreduce) return "";
  const bool add = a.kind == OpKind::kAddProcessSets;
  return StrCat("Attempted to ", add ? "add process sets" : "remove process set",
                " with mismatching values on different ranks: ",
                OneRank(add ? "specified lengths and ranks" : "specified process set",
                        ListText(a.numbers), ListText(b.numbers)));
}

std::string TypeText(const TensorSpec& tensor) {
  if (!tensor.held) return Name(tensor.dtype);
  return StrCat(Name(tensor.dtype), " (compressed from ", Name(*tensor.held), ")");
}

// Why two ranks' requests do not belong together; empty when they do.
std::string Difference(const Request& a, const Request& b) {
  std::string text = KindDifference(a, b);
  // Before the types: adaptive sums travel as bytes between GPUs.
  if (text.empty()) text = DeviceDifference(a, b);
  if (text.empty()) text = GroupDifference(a, b);
  for (size_t i = 0; text.empty() && i < a.tensors.size(); ++i) {
    if (a.tensors[i].dtype == b.tensors[i].dtype) continue;
    text = "Mismatched data types: " +
           OneRank("had type", TypeText(a.tensors[i]), TypeText(b.tensors[i]));
  }
  if (text.empty() && Reduces(a.kind) && a.op != b.op) {
    text = "Mismatched reduction operation: " +
           OneRank("specified reduction operation", Name(a.op), Name(b.op));
  }
  if (text.empty() && a.kind == OpKind::kBroadcast && a.root != b.root) {
    text = "Mismatched BROADCAST root ranks: " +
           OneRank("specified root rank", StrCat(a.root), StrCat(b.root));
  }
  for (size_t i = 0; text.empty() && i < a.tensors.size(); ++i) {
    text = ShapeDifference(a.kind, a.tensors[i], b.tensors[i]);
  }
  if (text.empty()) text = FactorDifference(a, b);
  return text.empty() ? NumbersDifference(a, b) : text;
}

// The first dimensions of an allgather, tensor by tensor. Returns why they cannot be joined.
std::string CollectRows(const std::vector<RankRequest>& asked, std::vector<int64_t>& rows) {
  for (size_t i = 0; i < asked.front().request.tensors.size(); ++i) {
    int64_t sum = 0;
    for (const RankRequest& each : asked) {
      rows.push_back(each.request.tensors[i].shape.front());
      if (!__builtin_add_overflow(sum, rows.back(), &sum)) continue;
      return "The first dimensions of an ALLGATHER add up to more than 2^63 - 1.";
    }
  }
  return "";
}

}  // namespace

std::vector<RankRequest> InOrder(std::vector<RankRequest> asked, const std::vector<int>& ranks) {
  std::vector<RankRequest*> of_rank(ranks.size(), nullptr);
  for (RankRequest& each : asked) {
    const auto place = std::lower_bound(ranks.begin(), ranks.end(), each.rank);
    of_rank.at(static_cast<size_t>(place - ranks.begin())) = &each;
  }
  std::vector<RankRequest> ordered;
  ordered.reserve(asked.size());
  for (RankRequest* each : of_rank) {
    if (each != nullptr) ordered.push_back(std::move(*each));
  }
  return ordered;
}

Response Compare(const std::vector<RankRequest>& asked) {
  const Request& first = asked.front().request;
  Response response;
  response.process_set = first.process_set;
  response.kind = first.kind;
  response.names = {first.name};
  response.ids = {-1};
  for (const RankRequest& other : asked) {
    const std::string difference = Difference(first, other.request);
    if (difference.empty()) continue;
    response.error = StrCat(difference, " (operation '", ShownName(first.name), "', ranks ",
                            asked.front().rank, " and ", other.rank, ")", ExplainMismatch(first));
    return response;
  }
  for (const TensorSpec& tensor : first.tensors) {
    if (!NeedsRows(first.kind) || !tensor.shape.empty()) continue;
    response.error = StrCat("Process-set rank zero tried to ", Name(first.kind),
                            " a rank-zero tensor. (operation '", ShownName(first.name),
                            "'; give it a first dimension)");
    return response;
  }
  if (first.kind == OpKind::kAllreduce && !first.numbers.empty()) {
    const bool alike = std::ranges::all_of(
        asked, [&](const RankRequest& each) { return each.request.numbers == first.numbers; });
    if (alike) response.numbers = {0};
  }
  if (first.kind != OpKind::kAllgather) return response;
  const std::string error = CollectRows(asked, response.numbers);
  if (!error.empty()) response.error = StrCat(error, " (operation '", ShownName(first.name), "')");
  return response;
}

}  // namespace hvd
