#include "device/kernels.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "device/code_files.h"

namespace hvd {
namespace {

constexpr uint32_t kThreads = 256;  // of a block
// Up to the first number, blocks of one turn, so that every part of the largest GPUs has some; then
// of up to four turns, whose loads are under way together; beyond the second, of more.
constexpr uint64_t kManyBlocks = 1024;
constexpr uint64_t kTurnsTogether = 4;
constexpr uint64_t kMostBlocks = 8192;

std::string CodeFor(Driver& driver, const std::string& folder, int device) {
  const std::string name = ChooseCodeFile(ListCodeFiles(folder), driver.Capability(device));
  return ReadCodeFile(folder + "/" + name);
}

uint64_t DividedUp(uint64_t elements, uint64_t parts) { return (elements + parts - 1) / parts; }

constexpr const char* kCopy = "hvd_copy";
constexpr std::array kScalable{DType::kUint8,   DType::kInt8,    DType::kInt16,
                               DType::kInt32,   DType::kInt64,   DType::kFloat16,
                               DType::kFloat32, DType::kFloat64, DType::kBFloat16};

std::string ScaleName(DType dtype) { return std::string("hvd_scale_") + Name(dtype); }

std::string ConvertName(DType to, DType from) {
  return std::string("hvd_") + Name(to) + "_from_" + Name(from);
}

bool IsWide(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kFloat64; }

}  // namespace

DeviceKernels::DeviceKernels(Driver& driver, const std::string& code_folder, int device)
    : driver_(driver), module_(driver, CodeFor(driver, code_folder, device)) {
  // All at once: CUDA loads the code of one when it is asked for first, for which it may wait for
  // all that runs on the GPU, and that may wait for other ranks.
  Find(kCopy);
  for (const DType dtype : kScalable) Find(ScaleName(dtype));
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    for (const DType wide : {DType::kFloat32, DType::kFloat64}) {
      Find(ConvertName(half, wide));
      Find(ConvertName(wide, half));
    }
  }
}

void DeviceKernels::Find(const std::string& kernel) {
  functions_.emplace(kernel, driver_.Function(module_.get(), kernel.c_str()));
}

void DeviceKernels::Launch(const std::string& kernel, std::span<const Piece> pieces,
                           std::span<void* const> arguments, uint64_t elements_per_thread,
                           DeviceStream stream) {
  const DeviceFunction function = functions_.at(kernel);
  while (!pieces.empty()) {
    const auto batch = pieces.first(std::min<size_t>(pieces.size(), kPiecesPerLaunch));
    pieces = pieces.subspan(batch.size());
    Pieces block{};
    std::ranges::copy(batch, block.item);
    uint64_t all_elements = 0;
    for (const Piece& piece : batch) all_elements += piece.elements;
    const uint64_t turn = kThreads * elements_per_thread;
    const uint64_t per_block =
        std::max(std::clamp(DividedUp(all_elements, kManyBlocks), turn, kTurnsTogether * turn),
                 DividedUp(all_elements, kMostBlocks));
    uint64_t blocks = 0;
    for (size_t i = 0; i < kPiecesPerLaunch; ++i) {
      blocks += DividedUp(block.item[i].elements, per_block);
      block.first_block[i + 1] = static_cast<uint32_t>(blocks);
    }
    if (blocks == 0) continue;
    std::vector<void*> all{&block};
    all.insert(all.end(), arguments.begin(), arguments.end());
    driver_.Launch(function, {static_cast<uint32_t>(blocks), kThreads}, stream, all.data());
  }
}

void DeviceKernels::Copy(std::span<const Piece> pieces, DeviceStream stream) {
  Launch(kCopy, pieces, {}, 16, stream);
}

void DeviceKernels::Scale(DType dtype, double factor, double divisor, std::span<const Piece> pieces,
                          DeviceStream stream) {
  if (dtype == DType::kBool) {
    throw Error(Error::Kind::kInvalid, "cannot scale bool elements: convert them to a number type");
  }
  const std::array<void*, 2> arguments{&factor, &divisor};
  Launch(ScaleName(dtype), pieces, arguments, 16 / SizeOf(dtype), stream);
}

void DeviceKernels::Convert(DType from, DType to, double factor, double divisor,
                            std::span<const Piece> pieces, DeviceStream stream) {
  if (!(IsWide(from) && IsHalf(to)) && !(IsHalf(from) && IsWide(to))) {
    throw Error(Error::Kind::kInvalid,
                std::string("no kernel converts ") + Name(from) + " to " + Name(to));
  }
  const std::array<void*, 2> arguments{&factor, &divisor};
  Launch(ConvertName(to, from), pieces, arguments, 16 / SizeOf(IsWide(from) ? from : to), stream);
}

}  // namespace hvd
