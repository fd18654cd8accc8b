// The kernels of GPUs against those of the CPU: their source is compiled for the CPU here.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "code_folder.h"
#include "device/driver.h"
#include "device/kernels.h"
#include "device/resources.h"
#include "harness.h"
#include "kernels/convert.h"
#include "kernels/scale.h"

namespace {

using hvd::DeviceKernels;
using hvd::Driver;
using hvd::DType;
using hvd::Error;
using hvd::Piece;
using hvd::test::CodeFolder;

const std::string kLibrary = HVD_EMULATED_GPU;

// Every kernel against kernels/scale.h, which the CPU uses.
template <typename T>
void ExpectScaledAsOnTheCpu(Driver& driver, DeviceKernels& kernels, DType dtype,
                            const std::vector<T>& values) {
  const hvd::Stream stream(driver);
  for (const auto& [factor, divisor] :
       {std::array{0.5, 1.0}, std::array{1.0, 3.0}, std::array{-1e30, 1.0}, std::array{1.1, 7.0}}) {
    std::vector<T> expected = values;
    hvd::Scale(dtype, factor, expected.data(), expected.size(), divisor);
    std::vector<T> actual(values.size());
    const Piece piece{values.data(), actual.data(), values.size()};
    kernels.Scale(dtype, factor, divisor, {&piece, 1}, stream.get());
    driver.Synchronize(stream.get());
    EXPECT_TRUE(std::memcmp(actual.data(), expected.data(), values.size() * sizeof(T)) == 0);
  }
}

template <typename T>
std::vector<T> RandomIntegers(size_t count) {
  std::mt19937_64 random(7);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(random());
  return values;
}

TEST(ScalingGivesTheBitsOfTheCpu) {
  const CodeFolder code;
  const auto driver = hvd::OpenCuda({kLibrary});
  DeviceKernels kernels(*driver, code.path(), 0);
  std::vector<float> floats(1001);
  std::vector<double> doubles(1001);
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = std::ldexp(1.37F, static_cast<int>(i % 200) - 100) * (i % 2 == 0 ? 1.0F : -1.0F);
    doubles[i] = std::ldexp(-1.37, static_cast<int>(i) - 500);
  }
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kFloat32, floats);
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kFloat64, doubles);
  std::vector<uint16_t> halves(31744);  // every finite half, positive
  std::iota(halves.begin(), halves.end(), uint16_t{0});
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kFloat16, halves);
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kBFloat16, halves);
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kUint8, RandomIntegers<uint8_t>(999));
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kInt8, RandomIntegers<int8_t>(999));
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kInt16, RandomIntegers<int16_t>(999));
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kInt32, RandomIntegers<int32_t>(999));
  ExpectScaledAsOnTheCpu(*driver, kernels, DType::kInt64, RandomIntegers<int64_t>(999));
  EXPECT_THROWS(kernels.Scale(DType::kBool, 2.0, 1.0, {}, nullptr), Error, "cannot scale bool");
}

TEST(ManyUnalignedPiecesOfEveryLengthAreCopiedWhole) {
  const CodeFolder code;
  const auto driver = hvd::OpenHip({kLibrary});
  DeviceKernels kernels(*driver, code.path(), 0);
  const hvd::Stream stream(*driver);
  std::vector<uint8_t> from = RandomIntegers<uint8_t>(60'000);
  std::vector<uint8_t> to(from.size(), 0xee);
  std::vector<uint8_t> expected = to;
  std::vector<Piece> pieces;  // more than one launch takes
  size_t place = 0;
  for (size_t i = 0; i < 300; ++i) {
    place += i % 5;
    std::memcpy(expected.data() + place, from.data() + place, i);
    pieces.push_back({from.data() + place, to.data() + place, i});
    place += i;
  }
  kernels.Copy(pieces, stream.get());
  EXPECT_EQ(to[10'000], 0xee);  // nothing has run yet
  driver->Synchronize(stream.get());
  EXPECT_TRUE(to == expected);
}

// Of which every thread takes several turns, beside short ones, which get blocks of their own.
TEST(LongPiecesAtAnyAlignmentAreCopiedWhole) {
  const CodeFolder code;
  const auto driver = hvd::OpenCuda({kLibrary});
  DeviceKernels kernels(*driver, code.path(), 0);
  const hvd::Stream stream(*driver);
  constexpr size_t kLong = (size_t{9} << 20) + 13;
  const std::vector<uint8_t> from = RandomIntegers<uint8_t>(kLong + 64);
  for (const size_t offset : {0, 1, 2, 4, 8}) {
    std::vector<uint8_t> to(from.size() + 64, 0xee);
    std::vector<uint8_t> expected = to;
    std::memcpy(expected.data() + 16, from.data() + offset, kLong);
    std::memcpy(expected.data() + 16 + kLong, from.data() + kLong, 40);
    const std::vector<Piece> pieces{{from.data(), to.data(), 0},
                                    {from.data() + kLong, to.data() + 16 + kLong, 40},
                                    {from.data() + offset, to.data() + 16, kLong}};
    kernels.Copy(pieces, stream.get());
    driver->Synchronize(stream.get());
    EXPECT_TRUE(to == expected);
  }
}

// Converted and scaled in one go, against the two steps of the CPU.
template <typename Wide>
void ExpectConvertedAsOnTheCpu(Driver& driver, DeviceKernels& kernels, DType held, DType half) {
  const hvd::Stream stream(driver);
  std::vector<Wide> values(4099);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(static_cast<Wide>(1.0 + static_cast<double>(i) / 4099.0),
                           static_cast<int>(i % 60) - 30);
  }
  values[7] = std::numeric_limits<Wide>::infinity();
  for (const double factor : {1.0, 0.3}) {
    std::vector<uint16_t> narrow(values.size());
    std::vector<Wide> wide(values.size());
    const Piece in{values.data(), narrow.data(), values.size()};
    const Piece out{narrow.data(), wide.data(), values.size()};
    kernels.Convert(held, half, factor, 1.0, {&in, 1}, stream.get());
    kernels.Convert(half, held, factor, 3.0, {&out, 1}, stream.get());
    driver.Synchronize(stream.get());
    std::vector<uint16_t> expected(values.size());
    hvd::Convert(held, half, values.data(), expected.data(), values.size());
    hvd::Scale(half, factor, expected.data(), expected.size());
    EXPECT_TRUE(narrow == expected);
    hvd::Scale(half, factor, expected.data(), expected.size(), 3.0);
    std::vector<Wide> expected_wide(values.size());
    hvd::Convert(half, held, expected.data(), expected_wide.data(), values.size());
    EXPECT_TRUE(wide == expected_wide);
  }
}

TEST(ConversionsToSixteenBitsAndBackAreThoseOfTheCpu) {
  const CodeFolder code;
  const auto driver = hvd::OpenCuda({kLibrary});
  DeviceKernels kernels(*driver, code.path(), 0);
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    ExpectConvertedAsOnTheCpu<float>(*driver, kernels, DType::kFloat32, half);
    ExpectConvertedAsOnTheCpu<double>(*driver, kernels, DType::kFloat64, half);
  }
  EXPECT_THROWS(kernels.Convert(DType::kInt8, DType::kFloat32, 1.0, 1.0, {}, nullptr), Error,
                "int8");
  EXPECT_THROWS(kernels.Convert(DType::kFloat64, DType::kFloat32, 1.0, 1.0, {}, nullptr), Error,
                "no kernel converts float64 to float32");
}

}  // namespace
