#include "runtime/request.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/shortened.h"
#include "base/str_cat.h"
#include "kernels/convert.h"

namespace hvd {
namespace {

constexpr size_t kLongestShownName = 200;

ReduceOp ReadReduceOp(WireReader& reader) {
  const uint8_t code = reader.U8();
  if (code > static_cast<uint8_t>(ReduceOp::kProduct)) {
    throw Error(Error::Kind::kIo, "malformed message: no such reduction");
  }
  return static_cast<ReduceOp>(code);
}

void ReadTypes(WireReader& reader, TensorSpec& tensor) {
  const int types = reader.U8();
  const auto dtype = DTypeFromCode(types & 0xf);
  if (types > 0xf) tensor.held = DTypeFromCode((types >> 4) - 1);
  if (!dtype || (types > 0xf && !(tensor.held && CanTravelAs(*tensor.held, *dtype)))) {
    throw Error(Error::Kind::kIo, "malformed message: no such element type");
  }
  tensor.dtype = *dtype;
}

// Of items of at least `item_bytes` each; refused when they cannot be in the rest.
size_t ReadCount(WireReader& reader, size_t most, size_t item_bytes) {
  const auto count = static_cast<uint64_t>(reader.Short());
  if (count > most || count > reader.remaining() / item_bytes) {
    throw Error(Error::Kind::kIo, StrCat("malformed message: ", count, " items announced, ",
                                         reader.remaining(), " bytes left"));
  }
  return static_cast<size_t>(count);
}

}  // namespace

const char* Name(OpKind kind) {
  switch (kind) {
    case OpKind::kAllreduce:
      return "ALLREDUCE";
    case OpKind::kAllgather:
      return "ALLGATHER";
    case OpKind::kBroadcast:
      return "BROADCAST";
    case OpKind::kBarrier:
      return "BARRIER";
    case OpKind::kAlltoall:
      return "ALLTOALL";
    case OpKind::kReducescatter:
      return "REDUCESCATTER";
    case OpKind::kJoin:
      return "JOIN";
    case OpKind::kAddProcessSets:
      return "ADD PROCESS SETS";
    case OpKind::kRemoveProcessSet:
      return "REMOVE PROCESS SET";
    case OpKind::kShareMemory:
      return "SHARE MEMORY";
  }
  return "UNKNOWN";
}

const char* Name(ReduceOp op) {
  switch (op) {
    case ReduceOp::kAverage:
      return "Average";
    case ReduceOp::kSum:
      return "Sum";
    case ReduceOp::kAdasum:
      return "Adasum";
    case ReduceOp::kMin:
      return "Min";
    case ReduceOp::kMax:
      return "Max";
    case ReduceOp::kProduct:
      return "Product";
  }
  return "unknown";
}

std::string LowerName(OpKind kind) {
  std::string name = Name(kind);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

bool IsNumbered(std::string_view name) {
  const std::string_view mark = kNumberedMark;
  const size_t dot = std::min(name.find('.'), name.size());
  if (!name.substr(dot).starts_with(mark)) return false;
  const std::string_view number = name.substr(dot + mark.size());
  return !number.empty() && number.find_first_not_of("0123456789") == std::string_view::npos;
}

bool Reduces(OpKind kind) { return kind == OpKind::kAllreduce || kind == OpKind::kReducescatter; }

std::string ShownName(std::string_view name) { return Shortened(name, kLongestShownName); }

std::string OperationKey(int32_t process_set, const std::string& name) {
  return process_set == kGlobalProcessSet ? name : StrCat(process_set, '\0', name);
}

OpKind ReadKind(WireReader& reader) {
  const uint8_t code = reader.U8();
  if (code > static_cast<uint8_t>(kLastKind)) {
    throw Error(Error::Kind::kIo, "malformed message: no such operation");
  }
  return static_cast<OpKind>(code);
}

Request ReadRequest(WireReader& reader) {
  Request request;
  request.name = reader.ShortString(kLongestName);
  const uint8_t marks = reader.U8();
  if (marks >= 2 * kNumbersMark) throw Error(Error::Kind::kIo, "malformed message: no such mark");
  request.grouped = (marks & kGroupedMark) != 0;
  request.kind = ReadKind(reader);
  request.op = ReadReduceOp(reader);
  if ((marks & kPrescaleMark) != 0) request.prescale = reader.F64();
  if ((marks & kPostscaleMark) != 0) request.postscale = reader.F64();
  if ((marks & kRootMark) != 0) request.root = static_cast<int32_t>(reader.Short());
  if ((marks & kProcessSetMark) != 0) request.process_set = static_cast<int32_t>(reader.Short());
  if ((marks & kDeviceMark) != 0) request.device = kSomeGpu;
  const size_t tensors = ReadCount(reader, kMostTensors, 2);  // a type and the length of a shape
  request.tensors.reserve(tensors);
  for (size_t i = 0; i < tensors; ++i) {
    TensorSpec& tensor = request.tensors.emplace_back();
    ReadTypes(reader, tensor);
    tensor.shape.resize(ReadCount(reader, kMostDimensions, 1));
    for (int64_t& dimension : tensor.shape) {
      dimension = reader.Short();
      if (dimension < 0) throw Error(Error::Kind::kIo, "malformed message: negative dimension");
    }
  }
  if ((marks & kNumbersMark) == 0) return request;
  request.numbers.resize(ReadCount(reader, std::max(kMostRanks, 2 * kMostTensors), 1));
  for (int64_t& number : request.numbers) number = reader.Short();
  return request;
}

}  // namespace hvd
