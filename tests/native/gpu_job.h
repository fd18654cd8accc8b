// Jobs on the emulated GPU.
#ifndef HVD_TESTS_NATIVE_GPU_JOB_H_
#define HVD_TESTS_NATIVE_GPU_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/shared_library.h"
#include "code_folder.h"
#include "ranks.h"
#include "runtime/runtime.h"

namespace hvd::test {

inline const std::string kLibrary = HVD_EMULATED_GPU;

struct Job {
  std::string nccl_of_rank_1 = kLibrary;
  std::string kind = "cuda";
  AgreementOptions agreement = {};
  bool survives = true;  // else the body leaves it behind failed
};

template <typename Function>
Function* Emulated(const char* name) {
  Function* function = nullptr;
  SharedLibrary::Open({kLibrary}).Load(name, function);
  return function;
}

// Lets something go wrong with NCCL on a rank, see emulated_nccl.cc.
inline void NextTime(int rank, const char* what) {
  Emulated<void(int, const char*)>("EmulatedNcclFault")(rank, what);
}

// What the emulated driver and NCCL have given and nobody has given back.
inline int InUse() {
  return Emulated<int()>("EmulatedGpuInUse")() + Emulated<int()>("EmulatedNcclInUse")();
}

inline void OnGpuRanks(int size, const Job& job, const std::function<void(int, Runtime&)>& body) {
  const CodeFolder code;
  const auto store = std::make_shared<HashStore>();
  OnThreads(size, [&](int rank) {
    auto options = OptionsFor(rank, size, TransportChoice::kShm, store);
    options.agreement = job.agreement;
    options.gpu = {.kind = job.kind,
                   .code_folder = code.path(),
                   .driver_libraries = {kLibrary},
                   .nccl_libraries = {rank == 1 ? job.nccl_of_rank_1 : kLibrary}};
    Runtime runtime(options);
    body(rank, runtime);
    if (!job.survives) return;
    Request barrier;
    barrier.name = "end of the test";
    barrier.kind = OpKind::kBarrier;
    (void)Wait(runtime, runtime.Enqueue(barrier, {}));
  });
}

template <typename T>
Request OnGpu(OpKind kind, const std::string& name, std::vector<int64_t> shape, int device = 0) {
  Request request = RequestFor<T>(kind, name, std::move(shape));
  request.device = device;
  return request;
}

}  // namespace hvd::test

#endif  // HVD_TESTS_NATIVE_GPU_JOB_H_
