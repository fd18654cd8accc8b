// The kernels of every CPU level that this machine supports give the same bits as the baseline's,
// which kernels_test compares with references.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/dtype.h"
#include "harness.h"
#include "kernel_table.h"

namespace {

using hvd::DType;
using hvd::ReduceOp;
using hvd::test::KernelTable;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr size_t kSizes[] = {0, 1, 7, 8, 9, 31, 32, 33, 65536 + 5};

const KernelTable& Open(const std::string& level) {
  const std::string path = std::string(HVD_KERNELS_DIR) + "/horovod_kernels_" + level + ".so";
  void* module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  // glibc and musl keep this text per thread.  NOLINTNEXTLINE(concurrency-mt-unsafe)
  if (module == nullptr) throw std::runtime_error(::dlerror());
  void* entry = ::dlsym(module, "kernel_table");
  if (entry == nullptr) throw std::runtime_error(path + " has no kernel_table");
  return *reinterpret_cast<hvd::test::KernelTableEntry>(entry)();
}

// The levels above the baseline that this CPU supports, which CpuLevel names in order.
std::vector<std::string> SupportedLevels() {
  std::vector<std::string> levels;
  const std::string highest = hvd::CpuLevel();
  for (const char* level : {"x86_64_v2", "x86_64_v3", "x86_64_v4"}) {
    if (highest.starts_with("x86_64_") && level <= highest) levels.emplace_back(level);
  }
  return levels;
}

// Any bytes: NaNs, infinities and denormals of floating-point types are among them.
std::vector<std::byte> Noise(size_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> noise(bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random() >> 56);
  return noise;
}

// What reduce.h leaves open is made equal: any NaN becomes 0x7fff..., and in a minimum or maximum
// any zero a positive one.
template <typename Bits>
void Close(Bits infinity, bool extreme, std::vector<std::byte>& data) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() / 2;
  for (size_t i = 0; i + sizeof(Bits) <= data.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, &data[i], sizeof bits);
    const Bits magnitude = bits & kMagnitude;
    if (magnitude > infinity) bits = kMagnitude;
    if (magnitude == 0 && extreme) bits = 0;
    std::memcpy(&data[i], &bits, sizeof bits);
  }
}

void CloseWhatIsOpen(DType dtype, bool extreme, std::vector<std::byte>& data) {
  switch (dtype) {
    case DType::kFloat16:
      return Close<uint16_t>(0x7c00, extreme, data);
    case DType::kBFloat16:
      return Close<uint16_t>(0x7f80, extreme, data);
    case DType::kFloat32:
      return Close<uint32_t>(0x7f800000, extreme, data);
    case DType::kFloat64:
      return Close<uint64_t>(0x7ff0000000000000, extreme, data);
    default:
      return;
  }
}

std::vector<std::byte> Reduced(const KernelTable& kernels, DType dtype, ReduceOp op, size_t count) {
  const auto from = Noise(count * hvd::SizeOf(dtype), count);
  auto to = Noise(count * hvd::SizeOf(dtype), count + 1);
  kernels.find_reduce(dtype, op)(from.data(), to.data(), count);
  CloseWhatIsOpen(dtype, op == ReduceOp::kMin || op == ReduceOp::kMax, to);
  return to;
}

std::vector<std::byte> Scaled(const KernelTable& kernels, DType dtype, double factor, size_t count,
                              double divisor) {
  auto data = Noise(count * hvd::SizeOf(dtype), count);
  kernels.scale(dtype, factor, data.data(), count, divisor);
  CloseWhatIsOpen(dtype, false, data);
  return data;
}

void ExpectSameBits(const KernelTable& kernels, const KernelTable& baseline, DType dtype) {
  for (const size_t count : kSizes) {
    for (const ReduceOp op : kOps) {
      EXPECT_TRUE(Reduced(kernels, dtype, op, count) == Reduced(baseline, dtype, op, count));
    }
    if (dtype == DType::kBool) continue;
    for (const double factor : {0.5, 1.0 / 3, -7.0, 1e30, 1.0}) {
      EXPECT_TRUE(Scaled(kernels, dtype, factor, count, 3) ==
                  Scaled(baseline, dtype, factor, count, 3));
    }
  }
}

}  // namespace

TEST(EveryLevelGivesTheBaselinesBits) {
  const KernelTable& baseline = Open("baseline");
  for (const std::string& level : SupportedLevels()) {
    const KernelTable& kernels = Open(level);
    EXPECT_TRUE(&kernels != &baseline);
    for (int code = 0; hvd::DTypeFromCode(code); ++code) {
      const DType dtype = *hvd::DTypeFromCode(code);
      const int before = hvd::test::Failures();
      ExpectSameBits(kernels, baseline, dtype);
      if (hvd::test::Failures() == before) continue;
      hvd::test::Report(__FILE__, __LINE__, level + " differs for " + hvd::Name(dtype));
    }
    std::printf("%s: compared\n", level.c_str());
  }
}
