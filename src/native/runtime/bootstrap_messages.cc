#include "runtime/bootstrap_messages.h"

#include <algorithm>

#include "base/error.h"
#include "base/shortened.h"
#include "base/wire.h"

namespace hvd {
namespace {

constexpr size_t kLongestText = 16384;
constexpr size_t kLongestVersion = 256;
constexpr size_t kLongestHost = 4096;  // or list of addresses
// Two texts and four integers, all of them empty.
constexpr size_t kSmallestRow = 40;

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

void Write(WireWriter& writer, const MemoryFileKey& key) {
  writer.I64(key.pid);
  writer.I64(key.fd);
  writer.Bytes(key.token);
}

MemoryFileKey ReadMemoryFileKey(WireReader& reader) {
  MemoryFileKey key;
  key.pid = reader.I64();
  key.fd = reader.I64();
  const auto token = reader.Bytes(key.token.size());
  std::copy(token.begin(), token.end(), key.token.begin());
  return key;
}

uint8_t ReadCode(WireReader& reader, uint8_t largest) {
  const uint8_t code = reader.U8();
  if (code > largest) throw Error(Error::Kind::kIo, "malformed message: code out of range");
  return code;
}

void Write(WireWriter& writer, const CpuShare& share) {
  const CpuQuota quota = share.quota.value_or(CpuQuota{});
  writer.String(share.machine);
  writer.String(share.cpus);
  writer.U8(share.quota ? 1 : 0);
  writer.String(quota.group);
  writer.I64(quota.millicpus);
}

CpuShare ReadCpuShare(WireReader& reader) {
  CpuShare share;
  share.machine = reader.String(kLongestHost);
  share.cpus = reader.String(kLongestHost);
  const bool bounded = ReadCode(reader, 1) == 1;
  CpuQuota quota;
  quota.group = reader.String(kLongestHost);
  quota.millicpus = reader.I64();
  if (bounded) share.quota = quota;
  return share;
}

std::string Fitting(const std::string& text) { return Shortened(text, kLongestText); }

}  // namespace

std::vector<uint8_t> Hello::Encode() const {
  WireWriter writer;
  writer.String(version);
  writer.I64(rank);
  Write(writer, peer);
  writer.I64(size);
  writer.I64(local_size);
  writer.U8(mpi ? 1 : 0);
  writer.String(identity);
  Write(writer, share);
  writer.String(data_endpoint);
  return writer.Take();
}

Hello Hello::Decode(std::span<const uint8_t> payload, const std::string& version) {
  WireReader reader(payload);
  Hello hello;
  hello.version = reader.String(kLongestVersion);
  hello.rank = static_cast<int32_t>(reader.I64());
  hello.peer = ReadPeer(reader);
  if (hello.version != version) return hello;
  hello.size = static_cast<int32_t>(reader.I64());
  hello.local_size = static_cast<int32_t>(reader.I64());
  hello.mpi = ReadCode(reader, 1) == 1;
  hello.identity = reader.String(kLongestHost);
  hello.share = ReadCpuShare(reader);
  hello.data_endpoint = reader.String(kLongestHost);
  reader.ExpectEnd();
  return hello;
}

void Write(WireWriter& writer, const NearAddress& address) {
  writer.String(address.name);
  writer.Bytes(address.key);
}

NearAddress ReadNearAddress(WireReader& reader) {
  NearAddress address;
  address.name = reader.String(kLongestHost);
  std::ranges::copy(reader.Bytes(address.key.size()), address.key.begin());
  return address;
}

std::vector<uint8_t> Table::Encode() const {
  WireWriter writer;
  writer.String(Fitting(error));
  writer.U8(static_cast<uint8_t>(reach));
  writer.U8(hierarchy.allreduce ? 1 : 0);
  writer.U8(hierarchy.allgather ? 1 : 0);
  writer.I64(silence_ms);
  writer.U8(is_homogeneous ? 1 : 0);
  Write(writer, segment);
  Write(writer, near);
  writer.U32(static_cast<uint32_t>(rows.size()));
  for (const Row& row : rows) {
    Write(writer, row.peer);
    writer.String(row.data_endpoint);
    writer.I64(row.host);
    writer.I64(row.cpus_each);
    writer.I64(row.parent);
  }
  return writer.Take();
}

Table Table::Decode(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  Table table;
  table.error = reader.String(kLongestText);
  if (!table.error.empty()) return table;
  table.reach = static_cast<Reach>(ReadCode(reader, static_cast<uint8_t>(Reach::kMpi)));
  table.hierarchy.allreduce = ReadCode(reader, 1) == 1;
  table.hierarchy.allgather = ReadCode(reader, 1) == 1;
  table.silence_ms = reader.I64();
  table.is_homogeneous = ReadCode(reader, 1) == 1;
  table.segment = ReadMemoryFileKey(reader);
  table.near = ReadNearAddress(reader);
  table.rows.resize(reader.Count(kSmallestRow));
  for (Row& row : table.rows) {
    row.peer = ReadPeer(reader);
    row.data_endpoint = reader.String(kLongestHost);
    row.host = static_cast<int32_t>(reader.I64());
    row.cpus_each = static_cast<int32_t>(reader.I64());
    row.parent = static_cast<int32_t>(reader.I64());
  }
  reader.ExpectEnd();
  return table;
}

std::vector<uint8_t> Verdict::Encode() const {
  WireWriter writer;
  writer.U8(static_cast<uint8_t>(kind));
  writer.String(Fitting(text));
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

std::string EncodeMemoryFileKey(const MemoryFileKey& key) {
  WireWriter writer;
  Write(writer, key);
  return {writer.bytes().begin(), writer.bytes().end()};
}

MemoryFileKey DecodeMemoryFileKey(const std::string& text) {
  WireReader reader({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  const MemoryFileKey key = ReadMemoryFileKey(reader);
  reader.ExpectEnd();
  return key;
}

std::vector<uint8_t> Confirm::Encode() const {
  WireWriter writer;
  writer.String(Fitting(error));
  writer.U8(tcp_may_do ? 1 : 0);
  return writer.Take();
}

Confirm Confirm::Decode(std::span<const uint8_t> payload) {
  WireReader reader(payload);
  Confirm confirm;
  confirm.error = reader.String(kLongestText);
  confirm.tcp_may_do = ReadCode(reader, 1) == 1;
  reader.ExpectEnd();
  return confirm;
}

}  // namespace hvd
