#include "emulated_collectives.h"

#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "base/dtype.h"
#include "kernels/reduce.h"

namespace {

hvd::DType TypeOf(int type) {
  using hvd::DType;
  static const std::map<int, DType> types{
      {0, DType::kInt8},    {1, DType::kUint8},   {2, DType::kInt32},   {4, DType::kInt64},
      {6, DType::kFloat16}, {7, DType::kFloat32}, {8, DType::kFloat64}, {9, DType::kBFloat16}};
  return types.at(type);
}

hvd::ReduceFn FunctionOf(const Call& call) {
  using hvd::ReduceOp;
  constexpr std::array kOps{ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMax, ReduceOp::kMin};
  return hvd::FindReduce(TypeOf(call.type), kOps.at(static_cast<size_t>(call.op)));
}

std::vector<char> Reduced(const Batches& ranks, size_t index, size_t first, size_t count) {
  const Call& call = ranks[0][index];
  const size_t size = hvd::SizeOf(TypeOf(call.type));
  std::vector<char> sum(count * size);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const char* from = static_cast<const char*>(ranks[rank][index].source) + first * size;
    if (rank == 0) {
      std::memcpy(sum.data(), from, sum.size());
    } else {
      FunctionOf(call)(from, sum.data(), count);
    }
  }
  return sum;
}

// NCCL does not end, or gives rubbish, where ranks ask for unlike things: this gives nothing.
bool Alike(const Batches& ranks, size_t index) {
  const Call& first = ranks[0][index];
  for (const auto& calls : ranks) {
    if (calls.size() <= index) return false;
    const Call& call = calls[index];
    const bool alike = call.kind == first.kind && call.count == first.count &&
                       call.type == first.type && call.op == first.op && call.root == first.root;
    if (!alike) return false;
  }
  return true;
}

void RunCollective(const Batches& ranks, size_t index) {
  if (!Alike(ranks, index)) return;
  const Call& call = ranks[0][index];
  const size_t bytes = call.count * hvd::SizeOf(TypeOf(call.type));
  const auto store = [&](size_t rank, const std::vector<char>& data) {
    if (!data.empty()) std::memcpy(ranks[rank][index].destination, data.data(), data.size());
  };
  std::vector<char> all;
  std::vector<std::vector<char>> parts;
  switch (call.kind) {
    case Kind::kAllReduce:
      all = Reduced(ranks, index, 0, call.count);
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, all);
      break;
    case Kind::kReduce:
      store(static_cast<size_t>(call.root), Reduced(ranks, index, 0, call.count));
      break;
    case Kind::kReduceScatter:
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        parts.push_back(Reduced(ranks, index, rank * call.count, call.count));
      }
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, parts[rank]);
      break;
    case Kind::kAllGather:
      for (const auto& batch : ranks) {
        const char* from = static_cast<const char*>(batch[index].source);
        all.insert(all.end(), from, from + bytes);
      }
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, all);
      break;
    case Kind::kBroadcast: {
      const Call& root = ranks[static_cast<size_t>(call.root)][index];
      const char* from = static_cast<const char*>(root.source);
      all.assign(from, from + bytes);
      for (size_t rank = 0; rank < ranks.size(); ++rank) store(rank, all);
      break;
    }
    case Kind::kSend:
    case Kind::kReceive:
      break;
  }
}

// The n-th send from a rank to another goes to the n-th receive there.
void RunMessages(const Batches& ranks) {
  for (size_t from = 0; from < ranks.size(); ++from) {
    for (size_t to = 0; to < ranks.size(); ++to) {
      std::vector<const Call*> sends;
      std::vector<const Call*> receives;
      for (const Call& call : ranks[from]) {
        if (call.kind == Kind::kSend && std::cmp_equal(call.root, to)) sends.push_back(&call);
      }
      for (const Call& call : ranks[to]) {
        if (call.kind == Kind::kReceive && std::cmp_equal(call.root, from)) {
          receives.push_back(&call);
        }
      }
      for (size_t i = 0; i < sends.size(); ++i) {
        std::memcpy(receives.at(i)->destination, sends[i]->source, sends[i]->count);
      }
    }
  }
}

}  // namespace

void RunBatches(const Batches& ranks) {
  for (size_t i = 0; i < ranks[0].size(); ++i) {
    const Kind kind = ranks[0][i].kind;
    if (kind != Kind::kSend && kind != Kind::kReceive) RunCollective(ranks, i);
  }
  RunMessages(ranks);
}
