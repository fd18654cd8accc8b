# What each CPU level means to the compiler and the linker. A level is a whole core library.

# hvd_target_level(<target> <level>): compiles and links the target for a level.
#
# gcc's link flag writes the level into the file's ELF note, with which the dynamic loader refuses
# the library on a lesser CPU instead of letting it die of an illegal instruction.
function(hvd_target_level target level)
  set(zig "$<BOOL:${HVD_ZIG}>")
  if(level STREQUAL "baseline")
    return()
  elseif(level MATCHES "^x86_64_v[234]$")
    string(REPLACE "_v" "-v" march "${level}")
    string(REPLACE "x86_64" "x86-64" march "${march}")
    target_compile_options(${target} PRIVATE "$<IF:${zig},-march=${level},-march=${march}>")
    target_link_options(${target} PRIVATE "$<$<NOT:${zig}>:LINKER:-z,${march}>")
  elseif(level STREQUAL "neoverse")
    target_compile_options(${target}
      PRIVATE "$<IF:${zig},-mcpu=neoverse_v1,-mcpu=neoverse-v1>")
  else()
    message(FATAL_ERROR "HVD_LEVELS: '${level}' is not a level; "
      "choose from baseline, x86_64_v2, x86_64_v3, x86_64_v4, neoverse")
  endif()
endfunction()
