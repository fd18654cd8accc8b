#include "runtime/request.h"

#include "base/error.h"

namespace hvd {
namespace {

constexpr size_t kLongestError = 16384;
constexpr size_t kMostRanks = size_t{1} << 20;

OpKind ReadKind(WireReader& reader) {
  const uint8_t code = reader.U8();
  if (code > static_cast<uint8_t>(OpKind::kBarrier)) {
    throw Error(Error::Kind::kIo, "malformed message: no such operation");
  }
  return static_cast<OpKind>(code);
}

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

void Write(WireWriter& writer, const Request& request) {
  writer.String(request.name);
  writer.U8(static_cast<uint8_t>(request.kind));
  writer.U8(static_cast<uint8_t>(request.dtype));
  writer.U8(static_cast<uint8_t>(request.op));
  writer.I64(request.root);
  writer.F64(request.prescale);
  writer.F64(request.postscale);
  writer.Integers(request.shape);
}

Request ReadRequest(WireReader& reader) {
  Request request;
  request.name = reader.String(kLongestName);
  request.kind = ReadKind(reader);
  request.dtype = ReadDType(reader);
  request.op = ReadReduceOp(reader);
  request.root = static_cast<int32_t>(reader.I64());
  request.prescale = reader.F64();
  request.postscale = reader.F64();
  request.shape = reader.Integers(kMostDimensions);
  for (const int64_t dimension : request.shape) {
    if (dimension < 0) throw Error(Error::Kind::kIo, "malformed message: negative dimension");
  }
  return request;
}

void Write(WireWriter& writer, const Response& response) {
  writer.String(response.name);
  writer.U8(static_cast<uint8_t>(response.kind));
  writer.String(std::string_view(response.error).substr(0, kLongestError));
  writer.Integers(response.first_dimensions);
}

Response ReadResponse(WireReader& reader) {
  Response response;
  response.name = reader.String(kLongestName);
  response.kind = ReadKind(reader);
  response.error = reader.String(kLongestError);
  response.first_dimensions = reader.Integers(kMostRanks);
  for (const int64_t dimension : response.first_dimensions) {
    if (dimension < 0) throw Error(Error::Kind::kIo, "malformed message: negative dimension");
  }
  return response;
}

}  // namespace hvd
