// The kernels of every CPU level that this machine supports give the same bits as the baseline's,
// which kernels_test compares with references.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/half.h"
#include "base/str_cat.h"
#include "harness.h"
#include "kernels/adasum.h"
#include "kernels/chosen.h"
#include "kernels/reduce.h"
#include "kernels/scale.h"

namespace {

using hvd::DType;
using hvd::Error;
using hvd::KernelTable;
using hvd::ReduceOp;

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
constexpr size_t kPage = 4096;
// The thread sanitizer, which has nothing to find here, takes half a minute for 65,536.
constexpr size_t kSizes[] = {0, 1, 7, 8, 9, 31, 32, 33, hvd::test::kThreadSanitizer ? 4101 : 65541};

std::string PathOf(const std::string& level) {
  return hvd::StrCat(HVD_KERNELS_DIR, "/", level, "/libhorovod_kernels.so");
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

// What reduce.h leaves open is made equal: any NaN becomes 0x7fff....
template <typename Bits>
void Close(Bits infinity, std::vector<std::byte>& data) {
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() / 2;
  for (size_t i = 0; i + sizeof(Bits) <= data.size(); i += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, &data[i], sizeof bits);
    const Bits magnitude = bits & kMagnitude;
    if (magnitude > infinity) bits = kMagnitude;
    std::memcpy(&data[i], &bits, sizeof bits);
  }
}

void CloseWhatIsOpen(DType dtype, std::vector<std::byte>& data) {
  switch (dtype) {
    case DType::kFloat16:
      return Close<uint16_t>(0x7c00, data);
    case DType::kBFloat16:
      return Close<uint16_t>(0x7f80, data);
    case DType::kFloat32:
      return Close<uint32_t>(0x7f800000, data);
    case DType::kFloat64:
      return Close<uint64_t>(0x7ff0000000000000, data);
    default:
      return;
  }
}

std::vector<std::byte> Reduced(const KernelTable& kernels, DType dtype, ReduceOp op, size_t count) {
  const auto from = Noise(count * hvd::SizeOf(dtype), count);
  auto to = Noise(count * hvd::SizeOf(dtype), count + 1);
  kernels.find_reduce(dtype, op)(from.data(), to.data(), count);
  CloseWhatIsOpen(dtype, to);
  return to;
}

std::vector<std::byte> Scaled(const KernelTable& kernels, DType dtype, double factor, size_t count,
                              double divisor) {
  auto data = Noise(count * hvd::SizeOf(dtype), count);
  kernels.scale(dtype, factor, data.data(), count, divisor);
  CloseWhatIsOpen(dtype, data);
  return data;
}

// By two functions.
std::vector<std::byte> SumThenScaled(const KernelTable& kernels, DType dtype, double factor,
                                     size_t count) {
  auto sum = Noise(count * hvd::SizeOf(dtype), count);
  const auto other = Noise(count * hvd::SizeOf(dtype), count + 1);
  kernels.find_reduce(dtype, ReduceOp::kSum)(other.data(), sum.data(), count);
  kernels.scale(dtype, factor, sum.data(), count, 2);
  CloseWhatIsOpen(dtype, sum);
  return sum;
}

// By one. Args: in_place: whether the result replaces the first operand.
std::vector<std::byte> ScaledSum(const KernelTable& kernels, DType dtype, double factor,
                                 size_t count, bool in_place) {
  auto sum = Noise(count * hvd::SizeOf(dtype), count);
  const auto other = Noise(count * hvd::SizeOf(dtype), count + 1);
  const std::vector<std::byte> before = sum;
  if (!in_place) std::ranges::fill(sum, std::byte{1});
  kernels.find_sum_scaled(dtype)(in_place ? sum.data() : before.data(), other.data(), sum.data(),
                                 count, hvd::ScalingFactor(dtype, factor, 2));
  CloseWhatIsOpen(dtype, sum);
  return sum;
}

// Whether the function for both operands puts into each what the one for a result of its own gives;
// true where there is none.
bool PutsSumIntoBoth(const KernelTable& kernels, DType dtype, double factor, size_t count) {
  const auto both = kernels.find_reduce_both(dtype, ReduceOp::kSum, factor);
  if (both == nullptr) return true;
  auto one = Noise(count * hvd::SizeOf(dtype), count);
  auto other = Noise(count * hvd::SizeOf(dtype), count + 1);
  std::vector<std::byte> expected(one.size());
  kernels.find_sum_scaled(dtype)(one.data(), other.data(), expected.data(), count, factor);
  both(one.data(), other.data(), count, factor);
  for (auto* result : {&one, &other, &expected}) CloseWhatIsOpen(dtype, *result);
  return one == expected && other == expected;
}

// Of a 16-bit type, one element at a time.
std::vector<std::byte> ScaledHalfSum(DType dtype, double factor, size_t count) {
  const bool ieee = dtype == DType::kFloat16;
  auto sum = Noise(count * sizeof(uint16_t), count);
  const auto other = Noise(count * sizeof(uint16_t), count + 1);
  for (size_t i = 0; i < sum.size(); i += sizeof(uint16_t)) {
    uint16_t a;
    uint16_t b;
    std::memcpy(&a, &sum[i], sizeof a);
    std::memcpy(&b, &other[i], sizeof b);
    const float both = ieee ? hvd::FloatFromHalf(a) + hvd::FloatFromHalf(b)
                            : hvd::FloatFromBFloat16(a) + hvd::FloatFromBFloat16(b);
    const float scaled = both * static_cast<float>(factor / 2);
    a = ieee ? hvd::HalfFromFloat(scaled) : hvd::BFloat16FromFloat(scaled);
    std::memcpy(&sum[i], &a, sizeof a);
  }
  CloseWhatIsOpen(dtype, sum);
  return sum;
}

std::vector<std::byte> Converted(const KernelTable& kernels, DType from, DType to, size_t count) {
  const auto data = Noise(count * hvd::SizeOf(from), count);
  std::vector<std::byte> converted(count * hvd::SizeOf(to));
  kernels.convert(from, to, data.data(), converted.data(), count);
  return converted;
}

void ExpectSameConversions(const KernelTable& kernels, const KernelTable& baseline) {
  for (const size_t count : kSizes) {
    for (const DType held : {DType::kFloat32, DType::kFloat64}) {
      for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
        EXPECT_TRUE(Converted(kernels, held, wire, count) ==
                    Converted(baseline, held, wire, count));
        auto wide = Converted(kernels, wire, held, count);
        auto expected = Converted(baseline, wire, held, count);
        CloseWhatIsOpen(held, wide);
        CloseWhatIsOpen(held, expected);
        EXPECT_TRUE(wide == expected);
      }
    }
  }
}

// Of numbers without NaNs or infinities, which the products would be.
std::vector<std::byte> Finite(DType dtype, size_t count, uint64_t seed) {
  std::vector<float> numbers(count);
  std::mt19937_64 random(seed);
  for (float& number : numbers) number = static_cast<float>(random() >> 40) / 0x1p20F - 8;
  std::vector<std::byte> data(count * hvd::SizeOf(dtype));
  if (count == 0) return data;
  if (dtype == DType::kFloat32) {
    std::memcpy(data.data(), numbers.data(), data.size());
  } else if (dtype == DType::kFloat64) {
    const std::vector<double> wide(numbers.begin(), numbers.end());
    std::memcpy(data.data(), wide.data(), data.size());
  } else {
    hvd_kernels.convert(DType::kFloat32, dtype, numbers.data(), data.data(), count);
  }
  return data;
}

void ExpectSameAdaptiveSums(const KernelTable& kernels, const KernelTable& baseline, DType dtype) {
  for (const size_t count : kSizes) {
    const auto right = Finite(dtype, count, 2);
    auto left = Finite(dtype, count, 1);
    auto expected = left;
    hvd::InnerProducts found;
    hvd::InnerProducts known;
    kernels.add_inner_products(dtype, left.data(), right.data(), count, found);
    baseline.add_inner_products(dtype, left.data(), right.data(), count, known);
    EXPECT_TRUE(std::memcmp(&found, &known, sizeof found) == 0);
    kernels.combine_multiples(dtype, 0.3, left.data(), -1.7, right.data(), count);
    baseline.combine_multiples(dtype, 0.3, expected.data(), -1.7, right.data(), count);
    EXPECT_TRUE(left == expected);
    left = Noise(left.size(), 3);
    expected = left;
    const auto noise = Noise(left.size(), 4);
    kernels.combine_multiples(dtype, 0.3, left.data(), -1.7, noise.data(), count);
    baseline.combine_multiples(dtype, 0.3, expected.data(), -1.7, noise.data(), count);
    CloseWhatIsOpen(dtype, left);
    CloseWhatIsOpen(dtype, expected);
    EXPECT_TRUE(left == expected);
  }
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
  const KernelTable& baseline = hvd_kernels;
  EXPECT_EQ(std::string(baseline.level), "baseline");
  for (const std::string& level : SupportedLevels()) {
    const KernelTable& kernels = hvd::OpenKernels(PathOf(level));
    EXPECT_EQ(std::string(kernels.level), level);
    for (int code = 0; hvd::DTypeFromCode(code); ++code) {
      const DType dtype = *hvd::DTypeFromCode(code);
      const int before = hvd::test::Failures();
      ExpectSameBits(kernels, baseline, dtype);
      if (hvd::test::Failures() == before) continue;
      hvd::test::Report(__FILE__, __LINE__, level + " differs for " + hvd::Name(dtype));
    }
    ExpectSameConversions(kernels, baseline);
    for (const DType dtype :
         {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      ExpectSameAdaptiveSums(kernels, baseline, dtype);
    }
    std::printf("%s: compared\n", level.c_str());
  }
}

TEST(SumsThatAreScaledAtOnceHaveTheBitsOfTwoSteps) {
  const KernelTable& baseline = hvd_kernels;
  std::vector<std::string> levels = SupportedLevels();
  levels.emplace_back("baseline");
  int found = 0;
  for (const std::string& level : levels) {
    const KernelTable& kernels = level == "baseline" ? baseline : hvd::OpenKernels(PathOf(level));
    for (int code = 0; hvd::DTypeFromCode(code); ++code) {
      const DType dtype = *hvd::DTypeFromCode(code);
      if (kernels.find_sum_scaled(dtype) == nullptr || hvd::IsHalf(dtype)) continue;
      ++found;
      // 2 / 2 is nothing to scale by; a third is no float32.
      for (const double factor : {2.0, 1.0, 1.0 / 3, -7.0, 1e30, 1e-30}) {
        for (const size_t count : kSizes) {
          const auto expected = SumThenScaled(baseline, dtype, factor, count);
          EXPECT_TRUE(ScaledSum(kernels, dtype, factor, count, true) == expected);
          EXPECT_TRUE(ScaledSum(kernels, dtype, factor, count, false) == expected);
        }
      }
    }
  }
  // float32 and float64 at every level.
  EXPECT_EQ(found, 2 * static_cast<int>(levels.size()));
}

TEST(SumsOf16BitsThatAreScaledAtOnceAreRoundedOnce) {
  std::vector<std::string> levels = SupportedLevels();
  levels.emplace_back("baseline");
  for (const std::string& level : levels) {
    const KernelTable& kernels =
        level == "baseline" ? hvd_kernels : hvd::OpenKernels(PathOf(level));
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (const double factor : {2.0, 1.0, 2.0 / 3, -7.0, 1e30, 1e-30}) {
        for (const size_t count : kSizes) {
          const auto expected = ScaledHalfSum(dtype, factor, count);
          EXPECT_TRUE(ScaledSum(kernels, dtype, factor, count, true) == expected);
          EXPECT_TRUE(ScaledSum(kernels, dtype, factor, count, false) == expected);
        }
      }
    }
    const auto scaled_sum = [&](float a, float b, double factor) {
      std::vector<uint16_t> sums(17, hvd::HalfFromFloat(a));
      const std::vector<uint16_t> others(17, hvd::HalfFromFloat(b));
      kernels.find_sum_scaled(DType::kFloat16)(sums.data(), others.data(), sums.data(), sums.size(),
                                               factor);
      EXPECT_TRUE(std::ranges::count(sums, sums.front()) == 17);
      return hvd::FloatFromHalf(sums.front());
    };
    // Together, they are infinite as a float16; and between two, of which the even one gives 4616.
    EXPECT_EQ(scaled_sum(61440, 40960, 0.5), 51200.0F);
    EXPECT_EQ(scaled_sum(6148, 2, 0.75), 4612.0F);
  }
}

TEST(SumsThatReplaceBothOperandsAreThoseThatReplaceNone) {
  std::vector<std::string> levels = SupportedLevels();
  levels.emplace_back("baseline");
  for (const std::string& level : levels) {
    const KernelTable& kernels =
        level == "baseline" ? hvd_kernels : hvd::OpenKernels(PathOf(level));
    for (const DType dtype :
         {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
      EXPECT_TRUE(kernels.find_reduce_both(dtype, ReduceOp::kSum, 0.5) != nullptr);
      for (const double factor : {1.0, 0.5, 1.0 / 3, -7.0, 1e30}) {
        for (const size_t count : kSizes) {
          EXPECT_TRUE(PutsSumIntoBoth(kernels, dtype, factor, count));
        }
      }
    }
  }
}

TEST(EveryLevelCopiesEachByteAndNoOther) {
  std::vector<std::string> levels = SupportedLevels();
  levels.emplace_back("baseline");
  for (const std::string& level : levels) {
    const KernelTable& kernels =
        level == "baseline" ? hvd_kernels : hvd::OpenKernels(PathOf(level));
    for (const size_t bytes : {size_t{1}, size_t{63}, size_t{64}, size_t{200}, kPage}) {
      for (const size_t offset : {0, 1, 63}) {
        const std::vector<std::byte> from = Noise(bytes + offset, bytes);
        std::vector<std::byte> to = Noise(bytes + 128, bytes + 1);
        std::vector<std::byte> expected = to;
        std::copy_n(from.begin() + static_cast<ptrdiff_t>(offset), bytes, expected.begin() + 7);
        kernels.stream(to.data() + 7, from.data() + offset, bytes);
        EXPECT_TRUE(to == expected);
      }
    }
  }
}

TEST(ChosenKernelsAreThoseInUse) {
  EXPECT_TRUE(&hvd::ChosenKernels() == &hvd_kernels);
  for (const std::string& level : SupportedLevels()) {
    const KernelTable& kernels = hvd::OpenKernels(PathOf(level));
    hvd::ChooseKernels(kernels);
    EXPECT_TRUE(&hvd::ChosenKernels() == &kernels);
    const auto sum = kernels.find_reduce(DType::kFloat16, ReduceOp::kSum);
    EXPECT_TRUE(hvd::FindReduce(DType::kFloat16, ReduceOp::kAverage) == sum);
    const auto both = kernels.find_reduce_both(DType::kFloat64, ReduceOp::kSum, 0.3);
    EXPECT_TRUE(hvd::FindReduceBoth(DType::kFloat64, ReduceOp::kAverage, 0.3) == both);
    EXPECT_TRUE(both != nullptr);
    const auto scaled = kernels.find_sum_scaled(DType::kFloat16);
    EXPECT_TRUE(hvd::FindSumScaled(DType::kFloat16, ReduceOp::kAverage) == scaled);
    EXPECT_TRUE(scaled != nullptr);
    EXPECT_TRUE(hvd::FindSumScaled(DType::kFloat16, ReduceOp::kProduct) == nullptr);
  }
  hvd::ChooseKernels(hvd_kernels);
}

TEST(WhatIsNoKernelsLibraryIsRefused) {
  EXPECT_THROWS(hvd::OpenKernels("/nowhere/libhorovod_kernels.so"), Error,
                "cannot open the kernels library: /nowhere/libhorovod_kernels.so: ");
  EXPECT_THROWS(hvd::OpenKernels("libc.so.6"), Error, "libc.so.6 lacks hvd_kernels");
}

TEST(KernelsOfAnotherReleaseOrForABetterCpuAreRefused) {
  KernelTable kernels = hvd_kernels;
  hvd::CheckKernels(kernels, "some.so");
  kernels.level = "x86_64_v9";
  EXPECT_THROWS(hvd::CheckKernels(kernels, "some.so"), Error,
                "some.so has kernels for x86_64_v9, this CPU supports " + hvd::CpuLevel() +
                    ": reinstall horovod-variants");
  ++kernels.version;
  EXPECT_THROWS(hvd::CheckKernels(kernels, "some.so"), Error,
                "the files are of different releases: reinstall horovod-variants");
}

TEST(ACpuSupportsItsLevelAndTheLowerOnes) {
  const std::string highest = hvd::CpuLevel();
  EXPECT_TRUE(hvd::CpuSupports(highest));
  EXPECT_TRUE(hvd::CpuSupports("baseline"));
  const bool x86 = highest.starts_with("x86_64_");
  EXPECT_EQ(hvd::CpuSupports("x86_64_v1"), x86);
  EXPECT_EQ(hvd::CpuSupports("x86_64_v4"), highest == "x86_64_v4");
  EXPECT_TRUE(!hvd::CpuSupports("x86_64_v10"));
  EXPECT_EQ(hvd::CpuSupports("neoverse"), highest == "neoverse");
}

TEST(TheSecondLevelCacheIsUnknownOrOfAnySizeThatThereIs) {
  const size_t bytes = hvd::SecondLevelCacheBytes();
  EXPECT_TRUE(bytes == 0 || (bytes >= size_t{64} << 10 && bytes <= size_t{128} << 20));
}

TEST(AnIntelSharesItsLastCacheAmongASocketsCores) {
  std::ifstream file("/proc/cpuinfo");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(!text.empty());
  EXPECT_EQ(hvd::SocketSharesCache(), text.find("GenuineIntel") != std::string::npos);
}
