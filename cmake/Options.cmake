# Options, and what holds for every target.
set(HVD_LEVELS "baseline" CACHE STRING
  "CPU levels to build kernels for, lowest first; the first is baseline, which the core holds")
option(HVD_TESTS "Build the native tests; without scikit-build, neither Python nor pybind11" OFF)
option(HVD_WERROR "Treat warnings as errors" OFF)
set(HVD_PYTHONS "" CACHE STRING
  "Pythons to build a native module for, each as ABI=FOLDER with its headers, such as \
cp311=/usr/include/python3.11; none stands for the Python that find_package finds")
option(HVD_ZIG "The compiler is zig: set by cmake/zig.cmake" OFF)
set(HVD_SANITIZE "" CACHE STRING "Sanitizers: thread, or address;undefined")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# Headers cost the compiler more than our code. No two files of a target may then have internal names
# in common; that each includes what it uses is seen where this is off, by `./dev lint_each`.
set(CMAKE_UNITY_BUILD ON CACHE BOOL "Hand the compiler several files at once")
set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)  # a seventh less work for gcc than by eights

# hvd_configure(<target>): language, warnings, sanitizers, and no trace of the build's folders.
function(hvd_configure target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON SKIP_BUILD_RPATH ON)
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/src/native")
  target_compile_options(${target} PRIVATE -Wall -Wextra
    -ffp-contract=off  # the same bits at every level
    $<$<BOOL:${HVD_WERROR}>:-Werror>
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # gcc 12 on std::string's operator+: GCC bug 105651
    "-ffile-prefix-map=${PROJECT_SOURCE_DIR}=."
    "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build"
    $<$<CONFIG:Release>:-g0>)
  # -O1: half the time of compiling at -O3, and stacks that can be read. Loops that fill and copy
  # become calls, which a sanitizer checks as a whole, and not every element.
  if(HVD_SANITIZE)
    string(REPLACE ";" "," sanitizers "${HVD_SANITIZE}")
    target_compile_options(${target} PRIVATE "-fsanitize=${sanitizers}" -O1 -g1
      $<$<CXX_COMPILER_ID:GNU>:-ftree-loop-distribute-patterns>
      -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(${target} PRIVATE "-fsanitize=${sanitizers}")
  endif()
  target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# hvd_ship(<target>): what is installed exports nothing of the libraries linked into it.
function(hvd_ship target)
  # zig writes no build identifier, and leaves it to the version script what is exported.
  target_link_options(${target} PRIVATE
    "$<$<NOT:$<BOOL:${HVD_ZIG}>>:LINKER:--exclude-libs,ALL;LINKER:--build-id=none>"
    $<$<CONFIG:Release>:-s>)
  if(HVD_ZIG)
    target_sources(${target} PRIVATE "${PROJECT_SOURCE_DIR}/cmake/no_demangler.cc")
  endif()
endfunction()
