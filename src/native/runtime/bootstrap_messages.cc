#include "runtime/bootstrap_messages.h"

#include <algorithm>

#include "base/error.h"
#include "base/wire.h"

namespace hvd {
namespace {

constexpr size_t kLongestText = 16384;
constexpr size_t kLongestHost = 1024;
// Two texts and an integer, all of them empty.
constexpr size_t kSmallestRow = 16;

void Write(WireWriter& writer, const Peer& peer) {
  writer.String(peer.host);
  writer.I64(peer.pid);
}

Peer ReadPeer(WireReader& reader) {
  Peer peer;
  peer.host = reader.String(kLongestHost);
  peer.pid = reader.I64();
  return peer;
}

uint8_t ReadCode(WireReader& reader, uint8_t largest) {
  const uint8_t code = reader.U8();
  if (code > largest) throw Error(Error::Kind::kIo, "malformed message: code out of range");
  return code;
}

std::string Shortened(const std::string& text) { return text.substr(0, kLongestText); }

}  // namespace

std::vector<uint8_t> Hello::Encode() const {
  WireWriter writer;
  writer.I64(rank);
  writer.I64(size);
  writer.I64(local_size);
  writer.U8(static_cast<uint8_t>(transport));
  Write(writer, peer);
  writer.String(identity);
  writer.String(data_endpoint);
  return writer.Take();
}

Hello Hello::Decode(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  Hello hello;
  hello.rank = static_cast<int32_t>(reader.I64());
  hello.size = static_cast<int32_t>(reader.I64());
  hello.local_size = static_cast<int32_t>(reader.I64());
  hello.transport =
      static_cast<TransportChoice>(ReadCode(reader, static_cast<uint8_t>(TransportChoice::kTcp)));
  hello.peer = ReadPeer(reader);
  hello.identity = reader.String(kLongestHost);
  hello.data_endpoint = reader.String(kLongestHost);
  reader.ExpectEnd();
  return hello;
}

std::vector<uint8_t> Table::Encode() const {
  WireWriter writer;
  writer.String(Shortened(error));
  writer.U8(shm ? 1 : 0);
  writer.U8(spin ? 1 : 0);
  writer.U8(is_homogeneous ? 1 : 0);
  writer.String(identity);
  writer.I64(segment.pid);
  writer.I64(segment.fd);
  writer.Bytes(segment.token);
  writer.U64(segment.ring_bytes);
  writer.U32(static_cast<uint32_t>(rows.size()));
  for (const Row& row : rows) {
    Write(writer, row.peer);
    writer.String(row.data_endpoint);
  }
  return writer.Take();
}

Table Table::Decode(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  Table table;
  table.error = reader.String(kLongestText);
  table.shm = ReadCode(reader, 1) == 1;
  table.spin = ReadCode(reader, 1) == 1;
  table.is_homogeneous = ReadCode(reader, 1) == 1;
  table.identity = reader.String(kLongestHost);
  table.segment.pid = reader.I64();
  table.segment.fd = reader.I64();
  const auto token = reader.Bytes(table.segment.token.size());
  std::copy(token.begin(), token.end(), table.segment.token.begin());
  table.segment.ring_bytes = reader.U64();
  table.rows.resize(reader.Count(kSmallestRow));
  for (Row& row : table.rows) {
    row.peer = ReadPeer(reader);
    row.data_endpoint = reader.String(kLongestHost);
  }
  reader.ExpectEnd();
  return table;
}

std::vector<uint8_t> Verdict::Encode() const {
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(kind));
  writer.String(Shortened(text));
  return writer.Take();
}

Verdict Verdict::Decode(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  Verdict verdict;
  verdict.kind =
      static_cast<Verdict::Kind>(ReadCode(reader, static_cast<uint8_t>(Kind::kRetryWithTcp)));
  verdict.text = reader.String(kLongestText);
  reader.ExpectEnd();
  return verdict;
}

std::vector<uint8_t> EncodeConfirm(const std::string& error) {
  WireWriter writer;
  writer.String(Shortened(error));
  return writer.Take();
}

std::string DecodeConfirm(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  std::string error = reader.String(kLongestText);
  reader.ExpectEnd();
  return error;
}

}  // namespace hvd
