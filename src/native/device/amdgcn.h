// What kernels.cu takes from HIP, for a clang that compiles it for AMD's GPUs as plain C++, so that
// neither headers nor libraries of ROCm are needed.
// Source: LLVM, "User Guide for AMDGPU Backend"; clang's lib/Headers/__clang_hip_runtime_wrapper.h.
#ifndef HVD_DEVICE_AMDGCN_H_
#define HVD_DEVICE_AMDGCN_H_

// As hipcc compiles a kernel: found by its name, replaced by no other, 1024 threads in a block.
#define HVD_KERNEL                                                  \
  extern "C" __attribute__((amdgpu_kernel, visibility("protected"), \
                            amdgpu_flat_work_group_size(1, 1024))) void
#define HVD_DEVICE __attribute__((always_inline)) inline

namespace hvd {

struct Index {
  unsigned x;
};

HVD_DEVICE Index BlockIndex() { return {__builtin_amdgcn_workgroup_id_x()}; }
HVD_DEVICE Index ThreadIndex() { return {__builtin_amdgcn_workitem_id_x()}; }
HVD_DEVICE Index BlockSize() { return {__builtin_amdgcn_workgroup_size_x()}; }

}  // namespace hvd

#define blockIdx (::hvd::BlockIndex())
#define threadIdx (::hvd::ThreadIndex())
#define blockDim (::hvd::BlockSize())

#endif  // HVD_DEVICE_AMDGCN_H_
