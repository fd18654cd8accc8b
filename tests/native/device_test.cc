// Collectives on GPU memory, on an emulated GPU: drivers, NCCL, and the order of streams.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/half.h"
#include "base/shared_library.h"
#include "code_folder.h"
#include "device/code_files.h"
#include "device/driver.h"
#include "device/resources.h"
#include "device/use_device.h"
#include "harness.h"
#include "kernels/convert.h"
#include "ops/device_collectives.h"
#include "ranks.h"
#include "transport/abort.h"
#include "transport/nccl/nccl_library.h"
#include "transport/nccl/nccl_start.h"

namespace {

using hvd::ChooseCodeFile;
using hvd::DeviceCollectives;
using hvd::DeviceMemory;
using hvd::DeviceReduction;
using hvd::DeviceTensor;
using hvd::Driver;
using hvd::DType;
using hvd::Error;
using hvd::Piece;
using hvd::ReduceOp;
using hvd::test::CodeFolder;
using hvd::test::OnThreads;

const std::string kLibrary = HVD_EMULATED_GPU;

template <typename T>
Piece PieceOf(const std::vector<T>& from, std::vector<T>& to) {
  return {from.data(), to.data(), from.size()};
}

TEST(TheCodeOfTheSameMajorAndAnOlderMinorIsChosenBeforePtx) {
  const std::vector<std::string> names{"kernels.compute_120.ptx", "kernels.sm_120.cubin",
                                       "kernels.sm_70.cubin", "kernels.sm_80.cubin",
                                       "kernels.sm_90.cubin"};
  EXPECT_EQ(ChooseCodeFile(names, 70), "kernels.sm_70.cubin");
  EXPECT_EQ(ChooseCodeFile(names, 75), "kernels.sm_70.cubin");
  EXPECT_EQ(ChooseCodeFile(names, 89), "kernels.sm_80.cubin");
  EXPECT_EQ(ChooseCodeFile(names, 90), "kernels.sm_90.cubin");
  EXPECT_EQ(ChooseCodeFile(names, 121), "kernels.sm_120.cubin");
  EXPECT_EQ(ChooseCodeFile(names, 130), "kernels.compute_120.ptx");
  EXPECT_THROWS(ChooseCodeFile(names, 61), Error, "no code for a GPU of compute capability 6.1");
  EXPECT_THROWS(ChooseCodeFile(names, 100), Error, "kernels.sm_90.cubin");
  EXPECT_THROWS(ChooseCodeFile(names, 0), Error, "an AMD GPU");
  EXPECT_THROWS(ChooseCodeFile({}, 90), Error, "only for CPUs");
  EXPECT_EQ(ChooseCodeFile({"kernels.hip.bundle"}, 0), "kernels.hip.bundle");
}

TEST(ALibraryThatIsAbsentOrTooOldIsNamed) {
  EXPECT_THROWS(hvd::OpenCuda({"libno-such-driver.so.1"}), Error, "libno-such-driver.so.1");
  EXPECT_THROWS(hvd::NcclLibrary({"libno-such-nccl.so.2", "libneither.so"}), Error,
                "libneither.so");
  EXPECT_THROWS(hvd::OpenCuda({"libm.so.6"}), Error, "lacks cu");
}

TEST(AFailureCarriesTheDriversWords) {
  const auto driver = hvd::OpenCuda({kLibrary});
  EXPECT_THROWS(driver->Use(7), Error, "cuDeviceGet: emulated failure (CUDA error 101)");
  EXPECT_THROWS(driver->LoadModule("no code"), Error, "cuModuleLoadData");
}

// As PyTorch's graphs are captured: whatever another thread does then that may wait is an error.
TEST(WhoUsesTheDeviceIsNotHeldUpByCaptures) {
  int (*mode)() = nullptr;
  hvd::SharedLibrary::Open({kLibrary}).Load("EmulatedGpuCaptureMode", mode);
  const auto driver = hvd::OpenCuda({kLibrary});
  EXPECT_EQ(mode(), 0);
  {
    const hvd::UseDevice use(*driver, 0);
    EXPECT_EQ(mode(), hvd::kRelaxedCapture);
    const hvd::UseDevice again(*driver, 1);
    EXPECT_EQ(mode(), hvd::kRelaxedCapture);
  }
  EXPECT_EQ(mode(), 0);
}

// Ranks as threads, each with a driver of its own.
void OnGpus(int size, const std::function<void(int, Driver&, DeviceCollectives&)>& body) {
  const CodeFolder code;
  const auto nccl = std::make_shared<const hvd::NcclLibrary>(std::vector{kLibrary});
  hvd::NcclUniqueId id{};
  nccl->Check(nccl->get_unique_id(&id), "ncclGetUniqueId");
  OnThreads(size, [&](int rank) {
    const hvd::Abort never;
    const auto driver = hvd::OpenCuda({kLibrary});
    driver->Use(0);
    DeviceCollectives collectives(*driver, code.path(), 0);
    hvd::NcclStart start(nccl, id, rank, size, [](const auto& on_device) { on_device(); }, never);
    EXPECT_TRUE(start.Wait(std::chrono::seconds(20)));
    EXPECT_EQ(start.failure(), "");
    collectives.Use(start.Take());
    body(rank, *driver, collectives);
  });
}

TEST(OneTensorIsReducedAndScaled) {
  OnGpus(3, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    const std::vector<float> from(1000, static_cast<float>(rank + 1));
    std::vector<float> to(from.size());
    const DeviceTensor tensor{PieceOf(from, to)};
    collectives.Allreduce({&tensor, 1}, {.op = ReduceOp::kSum});
    driver.Synchronize(collectives.stream());
    EXPECT_EQ(to, std::vector<float>(1000, 6.0F));
    DeviceReduction how{
        .op = ReduceOp::kAverage, .prescale = 2.0, .postscale = 5.0, .divisor = 3.0};
    collectives.Allreduce({&tensor, 1}, how);
    driver.Synchronize(collectives.stream());
    EXPECT_EQ(to, std::vector<float>(1000, 20.0F));
  });
}

TEST(SeveralTensorsTravelAsOneMessage) {
  OnGpus(2, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    std::vector<std::vector<int32_t>> tensors;
    std::vector<DeviceTensor> pieces;
    for (size_t i = 0; i < 200; ++i) {
      tensors.emplace_back(i, static_cast<int32_t>(i) * (rank + 1));
    }
    for (auto& tensor : tensors) pieces.push_back({PieceOf(tensor, tensor)});
    collectives.Allreduce(pieces, {.dtype = DType::kInt32, .prescale = 2.0});
    driver.Synchronize(collectives.stream());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i], std::vector<int32_t>(i, static_cast<int32_t>(i) * 6));
    }
  });
}

template <typename Wide>
std::vector<Wide> WideNumbers(size_t count, int rank) {
  std::vector<Wide> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(static_cast<Wide>(1.37) * static_cast<Wide>(rank + 1),
                           static_cast<int>(i % 40) - 22);
  }
  return values;
}

// What the three steps of converting, reducing and converting back come to.
template <typename Wide>
std::vector<Wide> InThreeSteps(Driver& driver, DeviceCollectives& collectives, DType held,
                               const DeviceReduction& how, const std::vector<Wide>& values) {
  std::vector<uint16_t> halves(values.size());
  hvd::Convert(held, how.dtype, values.data(), halves.data(), values.size());
  const DeviceTensor tensor{PieceOf(halves, halves)};
  collectives.Allreduce({&tensor, 1}, how);
  driver.Synchronize(collectives.stream());
  std::vector<Wide> result(values.size());
  hvd::Convert(how.dtype, held, halves.data(), result.data(), values.size());
  return result;
}

TEST(WhatIsHeldInAWiderTypeIsConvertedAsItIsPacked) {
  OnGpus(3, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    auto floats = WideNumbers<float>(1001, rank);
    const auto doubles = WideNumbers<double>(333, rank);
    std::vector<double> results(doubles.size());
    std::vector<uint16_t> halves(77, hvd::HalfFromFloat(1.0F));
    for (const DType wire : {DType::kFloat16, DType::kBFloat16}) {
      for (const double prescale : {1.0, 0.3}) {
        const DeviceReduction how{.dtype = wire,
                                  .op = ReduceOp::kAverage,
                                  .prescale = prescale,
                                  .postscale = 1.7,
                                  .divisor = 3.0};
        const auto expected_floats =
            InThreeSteps(driver, collectives, DType::kFloat32, how, floats);
        const auto expected_doubles =
            InThreeSteps(driver, collectives, DType::kFloat64, how, doubles);
        const DeviceTensor alone{PieceOf(doubles, results), DType::kFloat64};
        collectives.Allreduce({&alone, 1}, how);
        driver.Synchronize(collectives.stream());
        EXPECT_TRUE(results == expected_doubles);
        results.assign(results.size(), -1.0);
        const std::vector<DeviceTensor> together{
            {PieceOf(floats, floats), DType::kFloat32}, {PieceOf(halves, halves)}, alone};
        collectives.Allreduce(together, how);
        driver.Synchronize(collectives.stream());
        EXPECT_TRUE(results == expected_doubles);
        EXPECT_TRUE(floats == expected_floats);
        floats = WideNumbers<float>(1001, rank);
      }
    }
  });
}

// As where one rank compresses and another has brought tensors of the narrow type.
TEST(RanksThatHoldOtherTypesSendAsManyElements) {
  OnGpus(3, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    const DeviceReduction how{.dtype = DType::kFloat16, .op = ReduceOp::kSum};
    for (const size_t count : {1, 3, 8, 1001}) {
      std::vector<float> floats(count, 1.0F);
      std::vector<uint16_t> halves(count, hvd::HalfFromFloat(1.0F));
      const DeviceTensor narrow{PieceOf(halves, halves)};
      const DeviceTensor wide{PieceOf(floats, floats), DType::kFloat32};
      collectives.Allreduce({rank == 1 ? &narrow : &wide, 1}, how);
      driver.Synchronize(collectives.stream());
      EXPECT_EQ(floats, std::vector<float>(count, rank == 1 ? 1.0F : 3.0F));
      const float sum = rank == 1 ? 3.0F : 1.0F;
      EXPECT_EQ(halves, std::vector<uint16_t>(count, hvd::HalfFromFloat(sum)));
      const std::vector<DeviceTensor> pair =
          rank == 1 ? std::vector{wide, narrow} : std::vector{narrow, wide};
      collectives.Allreduce(pair, how);
      driver.Synchronize(collectives.stream());
      EXPECT_EQ(floats, std::vector<float>(count, rank == 1 ? 3.0F : 9.0F));
    }
  });
}

TEST(BooleansAreOrAndAnd) {
  OnGpus(2, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    const std::vector<uint8_t> mine{0, 1, static_cast<uint8_t>(rank)};
    std::vector<uint8_t> any(3);
    std::vector<uint8_t> all(3);
    const DeviceTensor sum{PieceOf(mine, any)};
    const DeviceTensor product{PieceOf(mine, all)};
    collectives.Allreduce({&sum, 1}, {.dtype = DType::kBool});
    collectives.Allreduce({&product, 1}, {.dtype = DType::kBool, .op = ReduceOp::kProduct});
    driver.Synchronize(collectives.stream());
    EXPECT_EQ(any, (std::vector<uint8_t>{0, 1, 1}));
    EXPECT_EQ(all, (std::vector<uint8_t>{0, 1, 0}));
    const DeviceReduction average{.dtype = DType::kBool, .op = ReduceOp::kAverage};
    EXPECT_THROWS(collectives.Allreduce({&sum, 1}, average), Error, "bool");
    const DeviceReduction adasum{.op = ReduceOp::kAdasum};
    EXPECT_THROWS(collectives.Allreduce({&sum, 1}, adasum), Error, "does not run on a GPU");
  });
}

TEST(PartsOfEqualAndOfUnequalLengthAreGathered) {
  OnGpus(3, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    const std::vector<uint8_t> mine(4, static_cast<uint8_t>('a' + rank));
    std::string equal(12, '?');
    std::string unequal(4, '?');
    collectives.Allgather(mine.data(), equal.data(), std::array<size_t, 3>{4, 4, 4});
    collectives.Allgather(mine.data(), unequal.data(), std::array<size_t, 3>{1, 0, 3});
    driver.Synchronize(collectives.stream());
    EXPECT_EQ(equal, "aaaabbbbcccc");
    EXPECT_EQ(unequal, "accc");
  });
}

TEST(PartsAreReducedAndScattered) {
  OnGpus(2, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    const std::vector<double> mine{1.0, 2.0, 3.0, 4.0, 5.0};
    for (const auto& parts : {std::array<size_t, 2>{2, 2}, std::array<size_t, 2>{3, 2}}) {
      std::vector<double> got(parts[static_cast<size_t>(rank)]);
      const DeviceReduction how{.dtype = DType::kFloat64, .prescale = 3.0, .postscale = 0.5};
      collectives.Reducescatter(mine.data(), got.data(), parts, how);
      driver.Synchronize(collectives.stream());
      const size_t first = rank == 0 ? 0 : parts[0];
      for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 3.0 * mine[first + i]);
    }
  });
}

TEST(EveryRankSendsItsPartToEveryOther) {
  OnGpus(2, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    const std::string mine = rank == 0 ? "abb" : "ccd";
    std::string got(3, '?');
    const std::array<size_t, 2> out =
        rank == 0 ? std::array<size_t, 2>{1, 2} : std::array<size_t, 2>{2, 1};
    const std::array<size_t, 2> in =
        rank == 0 ? std::array<size_t, 2>{1, 2} : std::array<size_t, 2>{2, 1};
    collectives.Alltoall(mine.data(), out, got.data(), in);
    driver.Synchronize(collectives.stream());
    EXPECT_EQ(got, rank == 0 ? "acc" : "bbd");
  });
}

TEST(WhatRootHasIsBroadcast) {
  OnGpus(3, [](int rank, Driver& driver, DeviceCollectives& collectives) {
    std::string data(5, static_cast<char>('0' + rank));
    collectives.Broadcast(data.data(), data.size(), 2);
    driver.Synchronize(collectives.stream());
    EXPECT_EQ(data, "22222");
  });
}

TEST(ATypeThatNcclLacksIsRefused) {
  OnGpus(1, [](int, Driver&, DeviceCollectives& collectives) {
    std::vector<int16_t> data(2);
    const DeviceTensor tensor{PieceOf(data, data)};
    const DeviceReduction how{.dtype = DType::kInt16};
    EXPECT_THROWS(collectives.Allreduce({&tensor, 1}, how), Error, "NCCL cannot reduce int16");
    collectives.CheckHealth();
  });
}

}  // namespace
