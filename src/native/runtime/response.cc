#include "runtime/response.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "runtime/gather_time.h"

namespace hvd {
namespace {

constexpr size_t kLongestError = 16384;
constexpr int64_t kLongestGather = kLongestGatherTime.count();

}  // namespace

void Write(WireWriter& writer, const Response& response) {
  writer.I64(response.process_set);
  writer.U8(static_cast<uint8_t>(response.kind));
  writer.U32(static_cast<uint32_t>(response.names.size()));
  for (const std::string& name : response.names) writer.String(name);
  writer.Integers(response.ids);
  writer.String(std::string_view(response.error).substr(0, kLongestError));
  writer.Integers(response.numbers);
  writer.I64(response.fusion_bytes);
  writer.I64(response.gather_microseconds);
  writer.U8(response.gather_gpus_too ? 1 : 0);
  writer.U8(response.tunes ? 1 : 0);
  writer.U32(static_cast<uint32_t>(response.requests.size()));
  for (const Request& request : response.requests) Write(writer, request);
}

Response ReadResponse(WireReader& reader) {
  Response response;
  response.process_set = static_cast<int32_t>(reader.I64());
  response.kind = ReadKind(reader);
  const size_t names = reader.Count(4);  // the length of a name
  response.names.reserve(names);
  for (size_t i = 0; i < names; ++i) response.names.push_back(reader.String(kLongestName));
  response.ids = reader.Integers(names);
  if (response.ids.size() != names) {
    throw Error(Error::Kind::kIo, "malformed message: names and numbers differ in number");
  }
  response.error = reader.String(kLongestError);
  response.numbers = reader.Integers(reader.remaining());
  response.fusion_bytes = reader.I64();
  response.gather_microseconds = std::clamp<int64_t>(reader.I64(), -1, kLongestGather);
  response.gather_gpus_too = reader.U8() != 0;
  response.tunes = reader.U8() != 0;
  const size_t requests = reader.Count(4);
  for (size_t i = 0; i < requests; ++i) response.requests.push_back(ReadRequest(reader));
  return response;
}

}  // namespace hvd
