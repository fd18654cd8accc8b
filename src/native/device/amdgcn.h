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
  unsigned y;
};

HVD_DEVICE Index BlockIndex() {
  return {__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y()};
}
HVD_DEVICE Index ThreadIndex() {
  return {__builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y()};
}
HVD_DEVICE Index BlockSize() {
  return {__builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y()};
}
// The hardware counts threads; HIP starts whole blocks alone.
HVD_DEVICE Index GridSize() {
  const Index block = BlockSize();
  return {__builtin_amdgcn_grid_size_x() / block.x, __builtin_amdgcn_grid_size_y() / block.y};
}

}  // namespace hvd

#define blockIdx (::hvd::BlockIndex())
#define threadIdx (::hvd::ThreadIndex())
#define blockDim (::hvd::BlockSize())
#define gridDim (::hvd::GridSize())

#endif  // HVD_DEVICE_AMDGCN_H_
