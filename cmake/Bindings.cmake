# The pybind11 modules: one for the Python at hand, or one for each of HVD_PYTHONS.
#
# A module for another Python, even of another machine, needs that Python's headers and the name that
# its import system looks for, and nothing of Python's own build files.

# hvd_bindings(<target> <sources>...): what all modules have in common.
function(hvd_bindings target)
  target_sources(${target} PRIVATE ${ARGN})
  hvd_configure(${target})
  hvd_target_level(${target} baseline)
  hvd_ship(${target})
  # The module serves the main interpreter alone, as the ranks' state is the process's; pybind11's
  # bookkeeping of others is a hundredth of a module.
  target_compile_definitions(${target} PRIVATE PYBIND11_HAS_SUBINTERPRETER_SUPPORT=0)
  # Template instances of the standard library's headers would be exported otherwise.
  target_link_options(${target} PRIVATE
    "LINKER:--version-script,${PROJECT_SOURCE_DIR}/cmake/bindings.map")
  # One file for the compiler: pybind11's headers cost it more than our code.
  set_target_properties(${target} PROPERTIES PREFIX "" DEBUG_POSTFIX ""
    UNITY_BUILD_BATCH_SIZE 0
    LINK_DEPENDS "${PROJECT_SOURCE_DIR}/cmake/bindings.map")
  install(TARGETS ${target} LIBRARY DESTINATION horovod/_native)
endfunction()

# pybind11 would try out link-time optimization, which is not used; zig builds a libc++ for each try.
set(HAS_FLTO_THIN OFF)
set(HAS_FLTO_AUTO OFF)
set(HAS_FLTO OFF)
if(NOT HVD_PYTHONS)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 CONFIG REQUIRED)
  pybind11_add_module(_bindings MODULE NO_EXTRAS)
  hvd_bindings(_bindings ${HVD_BINDINGS_SOURCES})
  return()
endif()

set(PYBIND11_NOPYTHON ON)
find_package(pybind11 CONFIG REQUIRED)
set(sources ${HVD_BINDINGS_SOURCES})
list(FILTER sources INCLUDE REGEX "/bindings/")
set(base_sources ${HVD_BINDINGS_SOURCES})
list(FILTER base_sources EXCLUDE REGEX "/bindings/")
add_library(horovod_bindings_base OBJECT ${base_sources})
hvd_configure(horovod_bindings_base)
hvd_target_level(horovod_bindings_base baseline)

foreach(entry IN LISTS HVD_PYTHONS)
  if(NOT entry MATCHES "^cp3([0-9]+t?)=(.+)$")
    message(FATAL_ERROR "HVD_PYTHONS: '${entry}' is not of the form cp311=FOLDER")
  endif()
  set(version "3${CMAKE_MATCH_1}")
  set(headers "${CMAKE_MATCH_2}")
  if(NOT EXISTS "${headers}/Python.h")
    message(FATAL_ERROR "HVD_PYTHONS: ${headers} holds no Python.h")
  endif()
  set(module _bindings_cp${version})
  add_library(${module} MODULE $<TARGET_OBJECTS:horovod_bindings_base>)
  hvd_bindings(${module} ${sources})
  target_link_libraries(${module} PRIVATE pybind11::headers)
  target_include_directories(${module} SYSTEM PRIVATE "${headers}")
  # Small before fast. clang's -Oz, a tenth of a module less than -Os, is -Os to zig unless it is
  # handed on.
  # Of template instances that come out alike, clang keeps one: a twentieth of a module.
  target_compile_options(${module} PRIVATE $<$<CONFIG:Release>:-Os>
    "$<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:Clang>>:SHELL:-Xclang -Oz>"
    "$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fmerge-functions>")
  set_target_properties(${module} PROPERTIES UNITY_BUILD ON
    LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/modules" OUTPUT_NAME _bindings
    SUFFIX ".cpython-${version}-${CMAKE_SYSTEM_PROCESSOR}-linux-gnu.so")
endforeach()
