# The kernels of the CPU levels above the baseline, each in a library that the core opens: the core
# itself, with the kernels of the baseline, is the same at every level.

# hvd_kernels(<level>): the target horovod_kernels_<level>, in a folder of the level's name.
function(hvd_kernels level)
  set(kernels horovod_kernels_${level})
  if(TARGET ${kernels})
    return()
  endif()
  add_library(${kernels} MODULE ${HVD_KERNEL_SOURCES})
  hvd_configure(${kernels})
  hvd_target_level(${kernels} ${level})
  target_compile_definitions(${kernels} PRIVATE HVD_LEVEL="${level}")
  target_compile_options(${kernels} PRIVATE -fno-exceptions)
  target_link_options(${kernels} PRIVATE LINKER:--no-undefined
    "LINKER:--version-script,${PROJECT_SOURCE_DIR}/cmake/kernels.map")
  set_target_properties(${kernels} PROPERTIES OUTPUT_NAME horovod_kernels PREFIX lib NO_SONAME ON
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${level}"
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/kernels.map")
endfunction()
