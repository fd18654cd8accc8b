#include "runtime/coordinator.h"

#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "[";
  for (const int64_t dimension : shape) {
    text += StrCat(text.size() == 1 ? "" : ", ", dimension);
  }
  return text + "]";
}

std::string OneRank(const char* verb, const std::string& mine, const std::string& theirs) {
  return StrCat("One rank ", verb, " ", mine, ", but another rank ", verb, " ", theirs, ".");
}

std::string AllgatherDifference(const Request& a, const Request& b) {
  const std::string prefix = "Mismatched ALLGATHER tensor shapes: ";
  if (a.shape.size() != b.shape.size()) {
    return prefix +
           OneRank("sent a tensor of rank", StrCat(a.shape.size()), StrCat(b.shape.size()));
  }
  for (size_t i = 1; i < a.shape.size(); ++i) {
    if (a.shape[i] == b.shape[i]) continue;
    const std::string verb = StrCat("sent a tensor with dimension ", i, " equal to");
    return prefix + OneRank(verb.c_str(), StrCat(a.shape[i]), StrCat(b.shape[i]));
  }
  return "";
}

// Why two ranks' requests do not belong together; empty when they do.
std::string Difference(const Request& a, const Request& b) {
  if (a.kind != b.kind) {
    const auto article = [](OpKind kind) {
      return StrCat(kind == OpKind::kAllreduce || kind == OpKind::kAllgather ? "an " : "a ",
                    Name(kind));
    };
    return "Mismatched operations: " + OneRank("did", article(a.kind), article(b.kind));
  }
  if (a.kind == OpKind::kBarrier) return "";
  if (a.dtype != b.dtype) {
    return "Mismatched data types: " + OneRank("had type", Name(a.dtype), Name(b.dtype));
  }
  if (a.kind == OpKind::kAllgather) return AllgatherDifference(a, b);
  if (a.kind == OpKind::kAllreduce && a.op != b.op) {
    return "Mismatched reduction operation: " +
           OneRank("specified reduction operation", Name(a.op), Name(b.op));
  }
  if (a.kind == OpKind::kBroadcast && a.root != b.root) {
    return "Mismatched BROADCAST root ranks: " +
           OneRank("specified root rank", StrCat(a.root), StrCat(b.root));
  }
  if (a.shape != b.shape) {
    return StrCat("Mismatched ", Name(a.kind), " tensor shapes: ",
                  OneRank("sent a tensor of shape", ShapeText(a.shape), ShapeText(b.shape)));
  }
  if (a.prescale != b.prescale || a.postscale != b.postscale) {
    const auto factors = [](const Request& r) {
      return StrCat("prescale ", r.prescale, " and postscale ", r.postscale);
    };
    return "Mismatched prescale and/or postscale factors: " +
           OneRank("had", factors(a), factors(b));
  }
  return "";
}

}  // namespace

Response Compare(const std::vector<Request>& requests) {
  const Request& first = requests.front();
  Response response{.name = first.name, .kind = first.kind, .error = "", .first_dimensions = {}};
  for (size_t rank = 1; rank < requests.size(); ++rank) {
    const std::string difference = Difference(first, requests[rank]);
    if (difference.empty()) continue;
    response.error = StrCat(difference, " (operation '", first.name, "', ranks 0 and ", rank, ")");
    return response;
  }
  if (first.kind == OpKind::kAllgather) {
    if (first.shape.empty()) {
      response.error = StrCat("Process-set rank zero tried to ALLGATHER a rank-zero tensor. ",
                              "(operation '", first.name, "'; give it a first dimension)");
      return response;
    }
    int64_t rows = 0;
    for (const Request& request : requests) {
      response.first_dimensions.push_back(request.shape.front());
      if (!__builtin_add_overflow(rows, request.shape.front(), &rows)) continue;
      response.error = StrCat("The first dimensions of an ALLGATHER add up to more than 2^63 - 1. ",
                              "(operation '", first.name, "')");
      return response;
    }
  }
  return response;
}

void Coordinator::Add(int rank, Request request) {
  const auto index = static_cast<size_t>(rank);
  const std::string name = request.name;
  Entry& entry = waiting_[name];
  if (entry.requests.empty()) {
    entry.requests.resize(static_cast<size_t>(size_));
    entry.present.resize(static_cast<size_t>(size_));
  }
  if (entry.present[index]) {
    throw Error(Error::Kind::kInternal, StrCat("rank ", rank, " asked for '", name, "' twice"));
  }
  entry.requests[index] = std::move(request);
  entry.present[index] = true;
  if (++entry.count < size_) return;
  ready_.push_back(Compare(entry.requests));
  waiting_.erase(name);
}

std::vector<Response> Coordinator::TakeReady() { return std::exchange(ready_, {}); }

}  // namespace hvd
