# The GPU kernels as files of machine code beside the core, which is the same with and without them.
set(HVD_GPU OFF CACHE STRING "The kind of GPU to build code for: cuda, or OFF")
set(HVD_GPU_ARCHITECTURES "" CACHE STRING
  "What cuda code is compiled for: sm_NN for machine code, compute_NN for PTX")
set(HVD_NVRTC "" CACHE STRING
  "The distribution of NVRTC that compiles cuda code, as nvidia-cuda-nvrtc-cu12; or the only one")

if(HVD_GPU STREQUAL "cuda")
  if(NOT HVD_GPU_ARCHITECTURES)
    message(FATAL_ERROR "HVD_GPU is cuda, so HVD_GPU_ARCHITECTURES has to list sm_NN or compute_NN")
  endif()
  find_package(Python REQUIRED COMPONENTS Interpreter)
  set(code "${PROJECT_BINARY_DIR}/gpu")
  set(files)
  foreach(architecture IN LISTS HVD_GPU_ARCHITECTURES)
    string(REGEX REPLACE "^sm_.*" "cubin" kind "${architecture}")
    string(REGEX REPLACE "^compute_.*" "ptx" kind "${kind}")
    list(APPEND files "${code}/kernels.${architecture}.${kind}")
  endforeach()
  set(kernels "${PROJECT_SOURCE_DIR}/src/native/device/kernels.cu")
  set(compiler "${PROJECT_SOURCE_DIR}/cmake/compile_device_code.py")
  add_custom_command(OUTPUT ${files}
    COMMAND "${Python_EXECUTABLE}" "${compiler}" --source "${kernels}"
      --include "${PROJECT_SOURCE_DIR}/src/native" --out "${code}"
      "$<$<BOOL:${HVD_NVRTC}>:--distribution=${HVD_NVRTC}>" ${HVD_GPU_ARCHITECTURES}
    DEPENDS "${kernels}" "${compiler}" "${PROJECT_SOURCE_DIR}/src/native/device/pieces.h"
    COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(horovod_gpu_code ALL DEPENDS ${files})
  install(FILES ${files} DESTINATION horovod/_native/gpu)
elseif(NOT HVD_GPU)
  set(HVD_GPU "")  # as _buildinfo.py has it
else()
  message(FATAL_ERROR "HVD_GPU: '${HVD_GPU}' is not a kind of GPU; choose cuda, or OFF")
endif()
