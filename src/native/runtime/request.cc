#include "runtime/request.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/str_cat.h"

namespace hvd {
namespace {

ReduceOp ReadReduceOp(WireReader& reader) {
  const uint8_t code = reader.U8();
  if (code > static_cast<uint8_t>(ReduceOp::kProduct)) {
    throw Error(Error::Kind::kIo, "malformed message: no such reduction");
  }
  return static_cast<ReduceOp>(code);
}

DType ReadDType(WireReader& reader) {
  const auto dtype = DTypeFromCode(reader.U8());
  if (!dtype) throw Error(Error::Kind::kIo, "malformed message: no such element type");
  return *dtype;
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

bool Reduces(OpKind kind) { return kind == OpKind::kAllreduce || kind == OpKind::kReducescatter; }

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

void Write(WireWriter& writer, const Request& request) {
  writer.String(request.name);
  writer.I64(request.process_set);
  writer.U8(static_cast<uint8_t>(request.kind));
  writer.U8(static_cast<uint8_t>(request.op));
  writer.F64(request.prescale);
  writer.F64(request.postscale);
  writer.I64(request.root);
  writer.I64(request.device);
  writer.U8(request.grouped ? 1 : 0);
  writer.U32(static_cast<uint32_t>(request.tensors.size()));
  for (const TensorSpec& tensor : request.tensors) {
    writer.U8(static_cast<uint8_t>(tensor.dtype));
    writer.Integers(tensor.shape);
  }
  writer.Integers(request.numbers);
}

Request ReadRequest(WireReader& reader) {
  Request request;
  request.name = reader.String(kLongestName);
  request.process_set = static_cast<int32_t>(reader.I64());
  request.kind = ReadKind(reader);
  request.op = ReadReduceOp(reader);
  request.prescale = reader.F64();
  request.postscale = reader.F64();
  request.root = static_cast<int32_t>(reader.I64());
  request.device = static_cast<int32_t>(reader.I64());
  request.grouped = reader.U8() != 0;
  const size_t tensors = reader.Count(5);  // a type and the length of a shape
  request.tensors.reserve(tensors);
  for (size_t i = 0; i < tensors; ++i) {
    const DType dtype = ReadDType(reader);
    request.tensors.push_back({dtype, reader.Integers(kMostDimensions)});
    for (const int64_t dimension : request.tensors.back().shape) {
      if (dimension < 0) throw Error(Error::Kind::kIo, "malformed message: negative dimension");
    }
  }
  request.numbers = reader.Integers(std::max(kMostRanks, 2 * kMostTensors));
  return request;
}

}  // namespace hvd
