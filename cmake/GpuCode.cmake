# The GPU kernels as files of machine code beside the core, which is the same with and without them.
set(HVD_GPU OFF CACHE STRING "The kind of GPU to build code for: cuda, hip, or OFF")
set(HVD_GPU_ARCHITECTURES "" CACHE STRING
  "What it is compiled for: sm_NN for machine code, compute_NN for PTX; gfxNNN with hip")
set(HVD_NVRTC "" CACHE STRING
  "NVRTC, which compiles cuda code: a distribution, as nvidia-cuda-nvrtc-cu12, or the library's path")
set(HVD_ROCM OFF CACHE STRING "The folder of a ROCm that compiles hip code; or OFF: ziglang does")

if(HVD_GPU AND NOT HVD_GPU MATCHES "^(cuda|hip)$")
  message(FATAL_ERROR "HVD_GPU: '${HVD_GPU}' is not a kind of GPU; choose cuda, hip, or OFF")
elseif(HVD_GPU)
  if(NOT HVD_GPU_ARCHITECTURES)
    message(FATAL_ERROR "HVD_GPU is ${HVD_GPU}, so HVD_GPU_ARCHITECTURES has to list what for: "
      "sm_NN and compute_NN with cuda, gfxNNN with hip")
  endif()
  find_package(Python REQUIRED COMPONENTS Interpreter)
  set(code "${PROJECT_BINARY_DIR}/gpu")
  set(kernels "${PROJECT_SOURCE_DIR}/src/native/device/kernels.cu")
  set(compiler "${PROJECT_SOURCE_DIR}/cmake/compile_${HVD_GPU}_code.py")
  if(HVD_GPU STREQUAL "hip")
    set(files "${code}/kernels.hip.bundle")
    set(options "$<$<BOOL:${HVD_ROCM}>:--rocm=${HVD_ROCM}>"
      "$<$<BOOL:${HVD_ZIG_PROGRAM}>:--zig=${HVD_ZIG_PROGRAM}>")
  else()
    set(files)
    foreach(architecture IN LISTS HVD_GPU_ARCHITECTURES)
      string(REGEX REPLACE "^sm_.*" "cubin" kind "${architecture}")
      string(REGEX REPLACE "^compute_.*" "ptx" kind "${kind}")
      list(APPEND files "${code}/kernels.${architecture}.${kind}")
    endforeach()
    set(nvrtc --distribution)
    if(IS_ABSOLUTE "${HVD_NVRTC}")
      set(nvrtc --nvrtc)
    endif()
    set(options "$<$<BOOL:${HVD_NVRTC}>:${nvrtc}=${HVD_NVRTC}>")
  endif()
  add_custom_command(OUTPUT ${files}
    COMMAND "${Python_EXECUTABLE}" "${compiler}" --source "${kernels}"
      --include "${PROJECT_SOURCE_DIR}/src/native" --out "${code}"
      ${options} ${HVD_GPU_ARCHITECTURES}
    DEPENDS "${kernels}" "${compiler}" "${PROJECT_SOURCE_DIR}/src/native/device/pieces.h"
      "${PROJECT_SOURCE_DIR}/src/native/device/amdgcn.h"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(horovod_gpu_code ALL DEPENDS ${files})
  install(FILES ${files} DESTINATION horovod/_native/gpu)
else()
  set(HVD_GPU "")  # as _buildinfo.py has it
endif()
