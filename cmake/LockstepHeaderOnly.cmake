# fmt, spdlog, nlohmann-json and CLI11 from a directory of headers, with the target names of their
# packages. For machines that have a compiler and libtorch but not these packages; see
# tools/device.sh.
function(lockstep_header_only target header)
  if(NOT EXISTS "${LOCKSTEP_DEPS_DIR}/include/${header}")
    message(FATAL_ERROR "no ${header} in ${LOCKSTEP_DEPS_DIR}/include: run tools/device.sh pack "
                        "on a machine that has it, or do not set LOCKSTEP_HEADER_ONLY_DEPS")
  endif()
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} SYSTEM INTERFACE "${LOCKSTEP_DEPS_DIR}/include")
    target_compile_definitions(${target} INTERFACE ${ARGN})
  endif()
endfunction()

# This directory must be searched first: the wheels of PyTorch contain part of another version of
# fmt, and a mix of two versions does not compile.
include_directories(BEFORE "${LOCKSTEP_DEPS_DIR}/include")

lockstep_header_only(fmt::fmt fmt/format.h FMT_HEADER_ONLY)
lockstep_header_only(spdlog::spdlog spdlog/spdlog.h FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
lockstep_header_only(nlohmann_json::nlohmann_json nlohmann/json.hpp)
lockstep_header_only(CLI11::CLI11 CLI/CLI.hpp)

# Every machine has the library of zlib, but not necessarily its headers.
if(NOT TARGET ZLIB::ZLIB)
  find_path(ZLIB_INCLUDE_DIR zlib.h HINTS "${LOCKSTEP_DEPS_DIR}/include")
  find_library(ZLIB_LIBRARY NAMES z libz.so.1)
endif()
