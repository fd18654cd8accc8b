// Control messages: what was written is read, and nothing else is.
#include "base/wire.h"

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/error.h"
#include "harness.h"
#include "runtime/blocking_call.h"
#include "runtime/bootstrap_messages.h"
#include "runtime/request.h"
#include "runtime/response.h"

namespace {

using hvd::Error;
using hvd::WireReader;
using hvd::WireWriter;

hvd::Request SomeRequest() {
  hvd::Request request;
  request.name = "allreduce.layer.0.weight";
  request.kind = hvd::OpKind::kAllreduce;
  request.op = hvd::ReduceOp::kAverage;
  request.root = 3;
  request.prescale = 0.1;
  request.postscale = -2.5;
  request.process_set = 5;
  request.device = hvd::kSomeGpu;
  request.grouped = true;
  request.tensors = {{hvd::DType::kBFloat16, {int64_t{1} << 40, 0, 7}}, {hvd::DType::kBool, {}}};
  request.numbers = {-1, int64_t{1} << 50};
  return request;
}

hvd::Table SomeTable() {
  hvd::Table table;
  table.reach = hvd::Reach::kMixed;
  table.hierarchy = {.allreduce = false, .allgather = true};
  table.silence_ms = 1500;
  table.segment = {.pid = 77, .fd = 9, .token = {1, 2, 3}};
  table.rows.resize(2);
  table.rows[0].peer = {"a", 1};
  table.rows[0].data_endpoint = "127.0.0.1:1";
  table.rows[1].peer = {"b", 2};
  table.rows[1].data_endpoint = "[::1]:2";
  table.rows[1].host = 3;
  table.rows[1].cpus_each = 4;
  return table;
}

// Every proper prefix of a message must be refused, whatever it was cut in.
template <typename Decode>
void ExpectTruncationsRefused(const std::vector<uint8_t>& whole, const Decode& decode) {
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<uint8_t> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(length));
    EXPECT_THROWS(decode(cut), Error, "malformed");
  }
}

}  // namespace

TEST(IntegersAreLittleEndian) {
  WireWriter writer;
  writer.U32(0x01020304);
  writer.I64(-2);
  const std::vector<uint8_t> expected = {4,    3,    2,    1,    0xfe, 0xff,
                                         0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  EXPECT_EQ(writer.bytes(), expected);
}

TEST(ValuesComeBack) {
  WireWriter writer;
  writer.U8(200);
  writer.U64(std::numeric_limits<uint64_t>::max());
  writer.F64(-0.1);
  writer.String("grüße");
  writer.Integers(std::vector<int64_t>{-1, 5});
  WireReader reader(writer.bytes());
  EXPECT_EQ(reader.U8(), 200);
  EXPECT_EQ(reader.U64(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(reader.F64(), -0.1);
  EXPECT_EQ(reader.String(100), "grüße");
  EXPECT_EQ(reader.Integers(2), (std::vector<int64_t>{-1, 5}));
  reader.ExpectEnd();
}

TEST(ShortNumbersComeBack) {
  std::vector<int64_t> values{0,
                              -1,
                              1,
                              -64,
                              63,
                              64,
                              -65,
                              std::numeric_limits<int64_t>::max(),
                              std::numeric_limits<int64_t>::min()};
  for (int shift = 0; shift < 63; ++shift) values.push_back((int64_t{1} << shift) - 1);
  for (const int64_t value : values) {
    WireWriter writer;
    writer.Short(value);
    EXPECT_EQ(writer.size() == 1, value >= -64 && value < 64);
    WireReader reader(writer.bytes());
    EXPECT_EQ(reader.Short(), value);
    reader.ExpectEnd();
  }
  const std::vector<uint8_t> endless(11, 0x80);
  WireReader reader(endless);
  EXPECT_THROWS(reader.Short(), Error, "without an end");
}

TEST(BothWritersWriteTheSame) {
  const hvd::Request group = SomeRequest();
  hvd::Request one = group;
  one.tensors.resize(1);
  one.grouped = false;
  std::array<uint8_t, 400> memory;
  for (const hvd::Request& request : {group, one}) {
    WireWriter growing;
    Write(growing, request);
    hvd::FixedWireWriter fixed(memory);
    hvd::WriteRequest(fixed, request);
    EXPECT_TRUE(fixed.fits());
    EXPECT_EQ(std::vector<uint8_t>(fixed.bytes().begin(), fixed.bytes().end()), growing.bytes());
    for (size_t room = 0; room < growing.size(); ++room) {
      hvd::FixedWireWriter small({memory.data(), room});
      hvd::WriteRequest(small, request);
      EXPECT_TRUE(!small.fits());
    }
  }
  const hvd::Memory nowhere;
  const hvd::CallOf call(one, {&nowhere, 1}, {});
  hvd::FixedWireWriter of_call(memory);
  hvd::WriteRequest(of_call, *call);
  WireWriter of_request;
  Write(of_request, one);
  EXPECT_EQ(std::vector<uint8_t>(of_call.bytes().begin(), of_call.bytes().end()),
            of_request.bytes());
  EXPECT_TRUE(hvd::RequestOf(*call) == one);
}

TEST(LengthsAreCheckedBeforeTheyAreBelieved) {
  WireWriter writer;
  writer.U32(0xffffffff);
  EXPECT_THROWS(WireReader(writer.bytes()).String(size_t{1} << 40), Error, "malformed");
  EXPECT_THROWS(WireReader(writer.bytes()).Integers(size_t{1} << 40), Error, "malformed");
  EXPECT_THROWS(WireReader(writer.bytes()).Count(16), Error, "malformed");
  WireWriter text;
  text.String("four");
  EXPECT_THROWS(WireReader(text.bytes()).String(3), Error, "limit 3");
  EXPECT_THROWS(WireReader(text.bytes()).ExpectEnd(), Error, "too many");
}

TEST(RequestsComeBack) {
  const hvd::Request request = SomeRequest();
  WireWriter writer;
  Write(writer, request);
  WireReader reader(writer.bytes());
  const hvd::Request read = hvd::ReadRequest(reader);
  EXPECT_TRUE(read == request);
  EXPECT_EQ(reader.remaining(), 0);
  ExpectTruncationsRefused(writer.bytes(), [](const std::vector<uint8_t>& bytes) {
    WireReader cut(bytes);
    return hvd::ReadRequest(cut);
  });
}

TEST(ToOtherRanksAnyGpuIsTheSame) {
  hvd::Request request = SomeRequest();
  request.device = 3;
  WireWriter writer;
  Write(writer, request);
  WireReader reader(writer.bytes());
  EXPECT_TRUE(hvd::ReadRequest(reader) == SomeRequest());
}

TEST(ResponsesComeBack) {
  WireWriter writer;
  hvd::Response response;
  response.process_set = 3;
  response.kind = hvd::OpKind::kAllgather;
  response.names = {"n", "m"};
  response.ids = {4, -1};
  response.error = "why";
  response.numbers = {3, 0, int64_t{1} << 33};
  response.fusion_bytes = 77;
  response.gather_microseconds = 78;
  response.gather_gpus_too = true;
  response.requests = {SomeRequest()};
  Write(writer, response);
  WireReader reader(writer.bytes());
  const hvd::Response read = hvd::ReadResponse(reader);
  EXPECT_EQ(read.process_set, 3);
  EXPECT_EQ(read.kind, hvd::OpKind::kAllgather);
  EXPECT_EQ(read.names, response.names);
  EXPECT_EQ(read.ids, response.ids);
  EXPECT_EQ(read.error, "why");
  EXPECT_EQ(read.numbers, response.numbers);
  EXPECT_EQ(read.fusion_bytes, 77);
  EXPECT_EQ(read.gather_microseconds, 78);
  EXPECT_TRUE(read.gather_gpus_too);
  EXPECT_EQ(read.requests.size(), 1);
  EXPECT_TRUE(read.requests.at(0) == SomeRequest());
  ExpectTruncationsRefused(writer.bytes(), [](const std::vector<uint8_t>& bytes) {
    WireReader cut(bytes);
    return hvd::ReadResponse(cut);
  });
}

TEST(BootstrapMessagesComeBack) {
  const std::vector<uint8_t> bytes = SomeTable().Encode();
  const hvd::Table read = hvd::Table::Decode(bytes);
  EXPECT_EQ(read.reach, hvd::Reach::kMixed);
  EXPECT_FALSE(read.hierarchy.allreduce);
  EXPECT_TRUE(read.hierarchy.allgather);
  EXPECT_EQ(read.silence_ms, 1500);
  EXPECT_EQ(read.rows[1].host, 3);
  EXPECT_EQ(read.rows[1].cpus_each, 4);
  EXPECT_EQ(read.segment.pid, 77);
  EXPECT_EQ(read.segment.token, SomeTable().segment.token);
  EXPECT_EQ(read.rows.size(), 2);
  EXPECT_EQ(read.rows[1].data_endpoint, "[::1]:2");
  ExpectTruncationsRefused(bytes, hvd::Table::Decode);
  hvd::Hello hello;
  hello.rank = 1;
  hello.size = 2;
  hello.data_endpoint = "127.0.0.1:1";
  hello.version = "1.2";
  hello.share = {.machine = "m", .cpus = "\x03", .quota = hvd::CpuQuota{"7:9", 1500}};
  const auto of_equals = [](const std::vector<uint8_t>& bytes) {
    return hvd::Hello::Decode(bytes, "1.2");
  };
  EXPECT_EQ(of_equals(hello.Encode()).size, 2);
  EXPECT_TRUE(of_equals(hello.Encode()).share == hello.share);
  ExpectTruncationsRefused(hello.Encode(), of_equals);
  // Another version's ends otherwise.
  hello.version = "1.3";
  std::vector<uint8_t> unlike = hello.Encode();
  unlike.push_back(1);
  EXPECT_EQ(of_equals(unlike).rank, 1);
  hvd::Table refusal;
  refusal.error = "other versions";
  unlike = refusal.Encode();
  unlike.pop_back();
  EXPECT_EQ(hvd::Table::Decode(unlike).error, "other versions");
  const hvd::Verdict verdict{hvd::Verdict::Kind::kFail, "no"};
  EXPECT_EQ(hvd::Verdict::Decode(verdict.Encode()).text, "no");
  ExpectTruncationsRefused(verdict.Encode(), hvd::Verdict::Decode);
}

TEST(CodesOutOfRangeAreRefused) {
  WireWriter writer;
  Write(writer, SomeRequest());
  // Behind the name and the marks: the kind and the reduction.
  const size_t codes = 1 + SomeRequest().name.size() + 1;
  for (size_t offset = codes; offset < codes + 2; ++offset) {
    std::vector<uint8_t> bytes = writer.bytes();
    bytes[offset] = 250;
    WireReader reader(bytes);
    EXPECT_THROWS(hvd::ReadRequest(reader), Error, "malformed");
  }
}

// Any bytes either decode or are refused with Error; sanitizers see to the rest.
TEST(NoiseIsDecodedOrRefused) {
  std::mt19937 random(12345);
  WireWriter valid;
  Write(valid, SomeRequest());
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<uint8_t> bytes = valid.bytes();
    for (int flips = 0; flips < 3; ++flips) {
      bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
    }
    try {
      WireReader reader(bytes);
      (void)hvd::ReadRequest(reader);
    } catch (const Error&) {
      ++refused;
    }
    try {
      (void)hvd::Table::Decode(bytes);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_TRUE(refused > 20000);
}
