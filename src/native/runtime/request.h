// What a rank tells the coordinator: it wants to take part in an operation.
#ifndef HVD_RUNTIME_REQUEST_H_
#define HVD_RUNTIME_REQUEST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/wire.h"
#include "kernels/reduce.h"

namespace hvd {

// The codes travel between ranks and through the C ABI: append, never renumber.
enum class OpKind : uint8_t {
  kAllreduce = 0,
  kAllgather = 1,
  kBroadcast = 2,
  kBarrier = 3,
  kAlltoall = 4,
  kReducescatter = 5,
  kJoin = 6,
  kAddProcessSets = 7,
  kRemoveProcessSet = 8,
  kShareMemory = 9,
};
constexpr OpKind kLastKind = OpKind::kShareMemory;

// "ALLREDUCE", as Horovod's texts have it.
const char* Name(OpKind kind);
const char* Name(ReduceOp op);
// "allreduce", for the middle of a sentence.
std::string LowerName(OpKind kind);
// Whether the kind has a reduction and factors.
bool Reduces(OpKind kind);

// In the name of an operation that its caller did not name; the number behind it never comes again.
constexpr const char* kNumberedMark = ".noname.";
// Whether a name is such a one: "allreduce.noname.7". That of a gradient without a name, which
// comes at every step, is none: "allreduce.allreduce.noname.0.7".
bool IsNumbered(std::string_view name);

struct TensorSpec {
  DType dtype = DType::kFloat32;  // in which it travels, and is reduced
  std::vector<int64_t> shape;
  // Allreduce: of this rank's memory, where that is another type; it converts on the way. The other
  // ranks hear of it for their texts alone.
  std::optional<DType> held = {};

  DType memory_dtype() const { return held.value_or(dtype); }
  bool operator==(const TensorSpec&) const = default;
};

// A rank joins once at a time.
constexpr const char* kJoinName = "join";
constexpr int32_t kGlobalProcessSet = 0;
constexpr int32_t kCpu = -1;
constexpr int32_t kSomeGpu = 0;

struct Request {
  std::string name;  // no other operation of the process set has it at the same time
  int32_t process_set = kGlobalProcessSet;
  OpKind kind = OpKind::kAllreduce;
  ReduceOp op = ReduceOp::kSum;
  double prescale = 1.0;
  double postscale = 1.0;
  int32_t root = -1;  // broadcast only: a global rank
  // Where the tensors are: kCpu, or the number of a GPU. To other ranks any GPU is kSomeGpu, or no
  // two requests would be alike where each uses the GPU of its local rank.
  int32_t device = kCpu;
  // The tensors of one group run together or not at all; most operations have one tensor.
  bool grouped = false;
  std::vector<TensorSpec> tensors;
  // By kind. Adding process sets: the ranks of each, after their number. Removing one: which. Join:
  // the GPU to stand in on, if any, which no other rank is told.
  // Allreduce: for each tensor the shared buffer that it lies in, -1 for none, and where in it;
  // nothing when none does.
  std::vector<int64_t> numbers;

  bool operator==(const Request&) const = default;
};

constexpr size_t kLongestName = 4096;
constexpr size_t kMostDimensions = 64;
constexpr size_t kMostTensors = size_t{1} << 20;
constexpr size_t kMostRanks = size_t{1} << 20;

// A name as texts for people show it: of a long one the beginning, or it would leave no room for
// what they say of it.
std::string ShownName(std::string_view name);

// Names are unique within a process set.
std::string OperationKey(int32_t process_set, const std::string& name);

// What is unusual about a request, and follows in it.
enum RequestMark : uint8_t {
  kGroupedMark = 1,
  kPrescaleMark = 2,
  kPostscaleMark = 4,
  kRootMark = 8,
  kProcessSetMark = 16,
  kDeviceMark = 32,
  kNumbersMark = 64,
};

// The type in which a tensor travels and, plus one, in the upper half, that of its memory.
constexpr uint8_t TypeByte(DType dtype, std::optional<DType> held) {
  const int upper = held ? static_cast<int>(*held) + 1 : 0;
  return static_cast<uint8_t>(static_cast<int>(dtype) | upper << 4);
}

// In few bytes: a usual request fits into one line of cache, which the fast lane gets in one go.
// Args: writer: one with WireWriter's methods. request: a Request, or what has its members.
template <typename Writer, typename RequestLike>
void WriteRequest(Writer& writer, const RequestLike& request) {
  const auto mark = [](RequestMark mark, bool set) { return set ? mark : 0; };
  const int marks =
      mark(kGroupedMark, request.grouped) | mark(kPrescaleMark, request.prescale != 1.0) |
      mark(kPostscaleMark, request.postscale != 1.0) | mark(kRootMark, request.root != -1) |
      mark(kProcessSetMark, request.process_set != kGlobalProcessSet) |
      mark(kDeviceMark, request.device != kCpu) | mark(kNumbersMark, !request.numbers.empty());
  writer.ShortString(request.name);
  writer.U8(static_cast<uint8_t>(marks));
  writer.U8(static_cast<uint8_t>(request.kind));
  writer.U8(static_cast<uint8_t>(request.op));
  if ((marks & kPrescaleMark) != 0) writer.F64(request.prescale);
  if ((marks & kPostscaleMark) != 0) writer.F64(request.postscale);
  if ((marks & kRootMark) != 0) writer.Short(request.root);
  if ((marks & kProcessSetMark) != 0) writer.Short(request.process_set);
  writer.Short(static_cast<int64_t>(request.tensors.size()));
  for (const auto& tensor : request.tensors) {
    writer.U8(TypeByte(tensor.dtype, tensor.held));
    writer.Short(static_cast<int64_t>(tensor.shape.size()));
    for (const int64_t dimension : tensor.shape) writer.Short(dimension);
  }
  if ((marks & kNumbersMark) == 0) return;
  writer.Short(static_cast<int64_t>(request.numbers.size()));
  for (const int64_t number : request.numbers) writer.Short(number);
}
inline void Write(WireWriter& writer, const Request& request) { WriteRequest(writer, request); }
// Throws Error (kIo) for anything that WriteRequest would not have written.
Request ReadRequest(WireReader& reader);
OpKind ReadKind(WireReader& reader);

}  // namespace hvd

#endif  // HVD_RUNTIME_REQUEST_H_
