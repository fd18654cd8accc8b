# What each CPU level means to the compiler and the linker.

# hvd_target_level(<target> <level>): compiles and links the target for a level.
#
# The level is written into an ELF note, with which the dynamic loader refuses the library on a lesser
# CPU instead of letting it die of an illegal instruction. GNU's linker has a flag for it; zig's drops
# such properties, but keeps a note in a section of another name, which glibc reads as well.
# The baseline is named to the compiler as well, because CXXFLAGS may ask for more: conda's do.
function(hvd_target_level target level)
  set(zig "$<BOOL:${HVD_ZIG}>")
  if(level STREQUAL "baseline")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT HVD_ZIG)
      target_compile_options(${target} PRIVATE -march=x86-64)
    endif()
  elseif(level MATCHES "^x86_64_v[234]$")
    string(REPLACE "_v" "-v" march "${level}")
    string(REPLACE "x86_64" "x86-64" march "${march}")
    target_compile_options(${target} PRIVATE "$<IF:${zig},-march=${level},-march=${march}>")
    target_link_options(${target} PRIVATE "$<$<NOT:${zig}>:LINKER:-z,${march}>")
    if(level STREQUAL "x86_64_v4")
      # Loops that wait for memory gain nothing from wide vectors; where arithmetic gains, as on
      # float16 and bfloat16, the kernels name them.
      target_compile_options(${target} PRIVATE -mprefer-vector-width=256
        $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # what GCC 12's own header leaves undefined
    endif()
    if(HVD_ZIG)
      string(REGEX REPLACE ".*v" "" number "${level}")
      math(EXPR HVD_ISA_BITS "(1 << ${number}) - 1")
      configure_file(cmake/isa_note.cc.in isa_note_${level}.cc @ONLY)
      target_sources(${target} PRIVATE "${PROJECT_BINARY_DIR}/isa_note_${level}.cc")
    endif()
  elseif(level STREQUAL "neoverse")
    # What the property `aarch64 :: version :: 8.4a` promises, and no more: not every such CPU has SVE.
    target_compile_options(${target}
      PRIVATE "$<IF:${zig},-mcpu=generic+v8_4a,-march=armv8.4-a;-mtune=neoverse-v1>")
  else()
    message(FATAL_ERROR "HVD_LEVELS: '${level}' is not a level; "
      "choose from baseline, x86_64_v2, x86_64_v3, x86_64_v4, neoverse")
  endif()
endfunction()
