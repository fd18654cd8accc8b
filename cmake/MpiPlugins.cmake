# The MPI plug-ins: small libraries, one for each family of MPI's binary interfaces, of which the one
# that fits the MPI at hand is opened at run time. None needs an MPI to be built, or links one.
set(HVD_MPI "mpich;openmpi;standard" CACHE STRING
  "Families of MPI to build plug-ins for: mpich, openmpi, standard; or OFF")

if(HVD_MPI)
  foreach(family IN LISTS HVD_MPI)
    if(NOT family MATCHES "^(mpich|openmpi|standard)$")
      message(FATAL_ERROR
        "HVD_MPI: '${family}' is not a family of MPI; choose from mpich, openmpi, standard, or OFF")
    endif()
    set(plugin horovod_mpi_${family})
    add_library(${plugin} MODULE src/native/transport/mpi/plugin.cc)
    hvd_configure(${plugin})
    hvd_target_level(${plugin} baseline)
    hvd_ship(${plugin})
    target_compile_definitions(${plugin}
      PRIVATE "HVD_MPI_ABI_HEADER=\"transport/mpi/abi/${family}.h\"")
    target_compile_options(${plugin} PRIVATE -fno-exceptions -fno-rtti)
    target_link_options(${plugin} PRIVATE LINKER:--no-undefined
      "LINKER:--version-script,${PROJECT_SOURCE_DIR}/cmake/mpi_plugin.map")
    set_target_properties(${plugin} PROPERTIES NO_SONAME ON
      LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/mpi"
      LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/mpi_plugin.map")
    install(TARGETS ${plugin} LIBRARY DESTINATION horovod/_native/mpi)
  endforeach()
endif()
