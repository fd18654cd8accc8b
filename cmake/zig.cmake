# Toolchain file: zig's C++ compiler (clang with libc++, from the package ziglang) for a glibc as old as
# HVD_ZIG_TARGET says, on this machine or for another one.
set(HVD_ZIG ON)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES HVD_ZIG_TARGET HVD_ZIG_PROGRAM)
if(NOT HVD_ZIG_TARGET MATCHES "^(x86_64|aarch64)-linux-gnu\\.2\\.[0-9]+$")
  message(FATAL_ERROR "HVD_ZIG_TARGET: '${HVD_ZIG_TARGET}' is no target; "
    "name the machine and the oldest glibc, such as x86_64-linux-gnu.2.17")
endif()
set(HVD_ZIG_MACHINE "${CMAKE_MATCH_1}")

# The package's own program is a Python script: the one behind it starts faster.
if(NOT HVD_ZIG_PROGRAM)
  find_program(HVD_ZIG_SCRIPT python-zig)
  if(NOT HVD_ZIG_SCRIPT)
    message(FATAL_ERROR "python-zig is not on the PATH; install ziglang")
  endif()
  execute_process(COMMAND "${HVD_ZIG_SCRIPT}" env OUTPUT_VARIABLE facts COMMAND_ERROR_IS_FATAL ANY)
  if(NOT facts MATCHES "\\.?\"?zig_exe\"?[ :=]+\"([^\"]+)\"")
    message(FATAL_ERROR "${HVD_ZIG_SCRIPT} env: says no zig_exe: ${facts}")
  endif()
  set(HVD_ZIG_PROGRAM "${CMAKE_MATCH_1}" CACHE FILEPATH "The zig program")
endif()

cmake_host_system_information(RESULT host QUERY OS_PLATFORM)
if(NOT host STREQUAL HVD_ZIG_MACHINE)
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR "${HVD_ZIG_MACHINE}")
endif()
set(CMAKE_CXX_COMPILER "${HVD_ZIG_PROGRAM}" c++ -target "${HVD_ZIG_TARGET}")
# zig builds libc++ at the first link, once for each kind of optimization: so there is one alone, and
# it holds for what CMake tries out too. A file for CMake's own archives is never made.
# Optimized as a whole, a pybind11 module is a fifth smaller; the core keeps its size.
set(CMAKE_CXX_FLAGS_INIT "-O2 -g0 -flto")
set(CMAKE_CXX_FLAGS_RELEASE_INIT "-DNDEBUG")
# Of libc++ the small one: 18 KiB of a wheel with six modules. What is compiled keeps the level above.
foreach(kind IN ITEMS EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-Os")
endforeach()
set(CMAKE_CXX_FLAGS_RELEASE "-DNDEBUG" CACHE STRING "zig's own -O2 -g0 go before it")
set(CMAKE_TRY_COMPILE_CONFIGURATION Release)
