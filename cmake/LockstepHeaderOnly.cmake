# fmt, spdlog, nlohmann-json and CLI11 from a folder of headers, under the names their packages give
# them. For machines that have a compiler and libtorch but none of these; see tools/device.sh.
function(lockstep_header_only target header)
  if(NOT EXISTS "${LOCKSTEP_DEPS_DIR}/include/${header}")
    message(FATAL_ERROR "no ${header} in ${LOCKSTEP_DEPS_DIR}/include: run tools/device.sh pack "
                        "on a machine that has it, or drop LOCKSTEP_HEADER_ONLY_DEPS")
  endif()
  if(NOT TARGET ${target})
    add_library(${target} INTERFACE IMPORTED)
    target_include_directories(${target} SYSTEM INTERFACE "${LOCKSTEP_DEPS_DIR}/include")
    target_compile_definitions(${target} INTERFACE ${ARGN})
  endif()
endfunction()

# Before all others: PyTorch's wheels bring a part of another fmt among their own headers, and a mix
# of two does not compile.
include_directories(BEFORE "${LOCKSTEP_DEPS_DIR}/include")

lockstep_header_only(fmt::fmt fmt/format.h FMT_HEADER_ONLY)
lockstep_header_only(spdlog::spdlog spdlog/spdlog.h FMT_HEADER_ONLY SPDLOG_FMT_EXTERNAL)
lockstep_header_only(nlohmann_json::nlohmann_json nlohmann/json.hpp)
lockstep_header_only(CLI11::CLI11 CLI/CLI.hpp)

# zlib is on every machine as a library; its headers may not be.
if(NOT TARGET ZLIB::ZLIB)
  find_path(ZLIB_INCLUDE_DIR zlib.h HINTS "${LOCKSTEP_DEPS_DIR}/include")
  find_library(ZLIB_LIBRARY NAMES z libz.so.1)
endif()
