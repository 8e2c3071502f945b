# The libraries that lockstep links. Included by the build of lockstep, and by lockstepConfig.cmake
# on the machine of a client. The latter sets the same variables to what the build found:
#
#   LOCKSTEP_TRAINING         the training library is built
#   LOCKSTEP_HEADER_ONLY_DEPS fmt, spdlog, nlohmann-json and CLI11 are headers in
#                             LOCKSTEP_DEPS_DIR/include instead of packages (tools/device.sh)
#   LOCKSTEP_WANT_ZMQ, _HTTPLIB, _PROTOBUF, _HWLOC, _GLOO, _MPI, _NCCL
#                             AUTO: use the library if it is found (ZeroMQ: see below); ON: require
#                             it; OFF: do not use it
#
# All missing required libraries are reported in one error.
#
# Sets LOCKSTEP_HAVE_ZMQ, _HTTPLIB, _PROTOBUF, _HWLOC, _GLOO, _MPI, _CUDA (that of libtorch) and
# _NCCL to 0 or 1. All targets defined here are imported targets, so an installed lockstep refers to
# them by name and never by a path of the machine that built it. If an optional library is not used,
# its target exists and is empty.

# lockstep_require(FOUND TEXT): adds TEXT to the list of missing libraries unless FOUND is true.
set(LOCKSTEP_MISSING "")
macro(lockstep_require found text)
  if(NOT ${found})
    list(APPEND LOCKSTEP_MISSING "${text}")
  endif()
endmacro()

macro(lockstep_report_missing)
  if(LOCKSTEP_MISSING)
    list(JOIN LOCKSTEP_MISSING "\n  " missing)
    message(FATAL_ERROR "lockstep needs libraries that CMake did not find:\n  ${missing}\n"
                        "docs/install.md lists their packages on several distributions and explains "
                        "how to use libraries outside of the system directories.")
  endif()
endmacro()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(LOCKSTEP_HEADER_ONLY_DEPS)
  include("${CMAKE_CURRENT_LIST_DIR}/LockstepHeaderOnly.cmake")
else()
  find_package(fmt QUIET)
  lockstep_require(fmt_FOUND "fmt 9 or newer")
  find_package(spdlog QUIET)
  lockstep_require(spdlog_FOUND "spdlog")
  find_package(nlohmann_json QUIET)
  lockstep_require(nlohmann_json_FOUND "nlohmann-json")
  find_package(CLI11 QUIET)
  lockstep_require(CLI11_FOUND "CLI11")
endif()

# ZeroMQ with its C++ header, and libsodium for its CURVE encryption: the control plane of a run on
# several nodes. AUTO requires them, except with LOCKSTEP_HEADER_ONLY_DEPS.
set(LOCKSTEP_HAVE_ZMQ 0)
if(LOCKSTEP_WANT_ZMQ STREQUAL "ON"
   OR NOT (LOCKSTEP_WANT_ZMQ STREQUAL "OFF" OR LOCKSTEP_HEADER_ONLY_DEPS))
  find_path(LOCKSTEP_ZMQ_INCLUDE zmq.hpp)
  find_library(LOCKSTEP_ZMQ_LIBRARY zmq)
  find_path(LOCKSTEP_SODIUM_INCLUDE sodium.h)
  find_library(LOCKSTEP_SODIUM_LIBRARY sodium)
  mark_as_advanced(LOCKSTEP_ZMQ_INCLUDE LOCKSTEP_ZMQ_LIBRARY LOCKSTEP_SODIUM_INCLUDE
                   LOCKSTEP_SODIUM_LIBRARY)
  if(LOCKSTEP_ZMQ_INCLUDE AND LOCKSTEP_ZMQ_LIBRARY AND LOCKSTEP_SODIUM_INCLUDE
     AND LOCKSTEP_SODIUM_LIBRARY)
    set(LOCKSTEP_HAVE_ZMQ 1)
  else()
    lockstep_require(LOCKSTEP_ZMQ_LIBRARY "ZeroMQ (-DLOCKSTEP_WANT_ZMQ=OFF builds for one node only)")
    lockstep_require(LOCKSTEP_ZMQ_INCLUDE "cppzmq, the header zmq.hpp")
    if(NOT LOCKSTEP_SODIUM_INCLUDE OR NOT LOCKSTEP_SODIUM_LIBRARY)
      list(APPEND LOCKSTEP_MISSING "libsodium")
    endif()
  endif()
endif()
if(NOT TARGET lockstep::zmq)
  add_library(lockstep::zmq INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_ZMQ)
    target_include_directories(lockstep::zmq SYSTEM INTERFACE "${LOCKSTEP_ZMQ_INCLUDE}"
                                                              "${LOCKSTEP_SODIUM_INCLUDE}")
    target_link_libraries(lockstep::zmq INTERFACE "${LOCKSTEP_ZMQ_LIBRARY}"
                                                  "${LOCKSTEP_SODIUM_LIBRARY}")
  endif()
endif()

# yaml-cpp; the static library is preferred, so that the launcher runs on nodes without yaml-cpp.
find_path(LOCKSTEP_YAML_INCLUDE yaml-cpp/yaml.h HINTS "${LOCKSTEP_DEPS_DIR}/include")
find_library(LOCKSTEP_YAML_LIBRARY NAMES libyaml-cpp.a yaml-cpp
             HINTS "${LOCKSTEP_DEPS_DIR}/lib/${CMAKE_SYSTEM_PROCESSOR}")
mark_as_advanced(LOCKSTEP_YAML_INCLUDE LOCKSTEP_YAML_LIBRARY)
if(NOT LOCKSTEP_YAML_INCLUDE OR NOT LOCKSTEP_YAML_LIBRARY)
  list(APPEND LOCKSTEP_MISSING "yaml-cpp")
endif()
if(NOT TARGET lockstep::yaml)
  add_library(lockstep::yaml INTERFACE IMPORTED)
  target_include_directories(lockstep::yaml SYSTEM INTERFACE "${LOCKSTEP_YAML_INCLUDE}")
  target_link_libraries(lockstep::yaml INTERFACE "${LOCKSTEP_YAML_LIBRARY}")
endif()

find_package(ZLIB QUIET)
lockstep_require(ZLIB_FOUND "zlib")

# libjpeg-turbo; the static library is preferred here, too. Other implementations of libjpeg cannot
# decode part of an image.
find_path(LOCKSTEP_JPEG_INCLUDE jpeglib.h HINTS "${LOCKSTEP_DEPS_DIR}/include")
find_library(LOCKSTEP_JPEG_LIBRARY NAMES libjpeg.a jpeg
             HINTS "${LOCKSTEP_DEPS_DIR}/lib/${CMAKE_SYSTEM_PROCESSOR}")
mark_as_advanced(LOCKSTEP_JPEG_INCLUDE LOCKSTEP_JPEG_LIBRARY)
if(NOT LOCKSTEP_JPEG_INCLUDE OR NOT LOCKSTEP_JPEG_LIBRARY)
  list(APPEND LOCKSTEP_MISSING "libjpeg-turbo")
endif()
if(NOT TARGET lockstep::jpeg)
  add_library(lockstep::jpeg INTERFACE IMPORTED)
  target_include_directories(lockstep::jpeg SYSTEM INTERFACE "${LOCKSTEP_JPEG_INCLUDE}")
  target_link_libraries(lockstep::jpeg INTERFACE "${LOCKSTEP_JPEG_LIBRARY}")
endif()

# PCRE2: its header, and the library for 8-bit characters.
find_path(LOCKSTEP_PCRE2_INCLUDE pcre2.h HINTS "${LOCKSTEP_DEPS_DIR}/include")
find_library(LOCKSTEP_PCRE2_LIBRARY pcre2-8
             HINTS "${LOCKSTEP_DEPS_DIR}/lib/${CMAKE_SYSTEM_PROCESSOR}")
mark_as_advanced(LOCKSTEP_PCRE2_INCLUDE LOCKSTEP_PCRE2_LIBRARY)
if(NOT LOCKSTEP_PCRE2_INCLUDE OR NOT LOCKSTEP_PCRE2_LIBRARY)
  list(APPEND LOCKSTEP_MISSING "PCRE2")
endif()
if(NOT TARGET lockstep::pcre2)
  add_library(lockstep::pcre2 INTERFACE IMPORTED)
  target_include_directories(lockstep::pcre2 SYSTEM INTERFACE "${LOCKSTEP_PCRE2_INCLUDE}")
  target_link_libraries(lockstep::pcre2 INTERFACE "${LOCKSTEP_PCRE2_LIBRARY}")
endif()

# cpp-httplib for the dashboard. Debian splits it into declarations and a shared library. The macros
# of the library differ between releases and change the layout of its classes, so they are read from
# its pkg-config file. Elsewhere it is header-only.
set(LOCKSTEP_HAVE_HTTPLIB 0)
if(LOCKSTEP_WANT_HTTPLIB STREQUAL "ON"
   OR NOT (LOCKSTEP_WANT_HTTPLIB STREQUAL "OFF" OR LOCKSTEP_HEADER_ONLY_DEPS))
  find_path(LOCKSTEP_HTTPLIB_INCLUDE httplib.h)
  find_library(LOCKSTEP_HTTPLIB_LIBRARY cpp-httplib)
  mark_as_advanced(LOCKSTEP_HTTPLIB_INCLUDE LOCKSTEP_HTTPLIB_LIBRARY)
  if(LOCKSTEP_HTTPLIB_INCLUDE)
    set(LOCKSTEP_HAVE_HTTPLIB 1)
    if(LOCKSTEP_HTTPLIB_LIBRARY)
      find_package(PkgConfig QUIET)
      if(PKG_CONFIG_FOUND)
        pkg_check_modules(lockstep_httplib_package QUIET IMPORTED_TARGET cpp-httplib)
      endif()
      lockstep_require(lockstep_httplib_package_FOUND
                       "pkg-config, and OpenSSL, zlib and Brotli, which the installed cpp-httplib uses")
      find_package(OpenSSL QUIET)
      lockstep_require(OPENSSL_FOUND "OpenSSL, which the installed cpp-httplib uses")
    endif()
  elseif(LOCKSTEP_WANT_HTTPLIB STREQUAL "ON")
    list(APPEND LOCKSTEP_MISSING "cpp-httplib, because LOCKSTEP_WANT_HTTPLIB is ON")
  endif()
endif()
if(NOT TARGET lockstep::httplib)
  add_library(lockstep::httplib INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_HTTPLIB)
    target_include_directories(lockstep::httplib SYSTEM INTERFACE "${LOCKSTEP_HTTPLIB_INCLUDE}")
    target_link_libraries(lockstep::httplib INTERFACE Threads::Threads)
    if(LOCKSTEP_HTTPLIB_LIBRARY)
      # From 0.18 on, inline functions of the header call libcrypto.
      target_link_libraries(lockstep::httplib INTERFACE PkgConfig::lockstep_httplib_package
                                                        OpenSSL::Crypto)
    endif()
  endif()
endif()

# protobuf-lite (preferably static) and protoc, for TensorBoard files. Only the launcher links it,
# because libtorch contains its own protobuf.
set(LOCKSTEP_HAVE_PROTOBUF 0)
if(LOCKSTEP_WANT_PROTOBUF STREQUAL "ON"
   OR NOT (LOCKSTEP_WANT_PROTOBUF STREQUAL "OFF" OR LOCKSTEP_HEADER_ONLY_DEPS))
  find_program(LOCKSTEP_PROTOC protoc)
  find_path(LOCKSTEP_PROTOBUF_INCLUDE google/protobuf/message_lite.h)
  find_library(LOCKSTEP_PROTOBUF_LIBRARY NAMES libprotobuf-lite.a protobuf-lite)
  mark_as_advanced(LOCKSTEP_PROTOC LOCKSTEP_PROTOBUF_INCLUDE LOCKSTEP_PROTOBUF_LIBRARY)
  if(LOCKSTEP_PROTOC AND LOCKSTEP_PROTOBUF_INCLUDE AND LOCKSTEP_PROTOBUF_LIBRARY)
    set(LOCKSTEP_HAVE_PROTOBUF 1)
  elseif(LOCKSTEP_WANT_PROTOBUF STREQUAL "ON")
    list(APPEND LOCKSTEP_MISSING "protobuf, because LOCKSTEP_WANT_PROTOBUF is ON")
  endif()
endif()
if(NOT TARGET lockstep::protobuf)
  add_library(lockstep::protobuf INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_PROTOBUF)
    target_include_directories(lockstep::protobuf SYSTEM INTERFACE "${LOCKSTEP_PROTOBUF_INCLUDE}")
    target_link_libraries(lockstep::protobuf INTERFACE "${LOCKSTEP_PROTOBUF_LIBRARY}"
                                                       Threads::Threads)
  endif()
endif()

# hwloc 2.1 or newer, found by its header, because not every distribution has its package
# configuration.
set(LOCKSTEP_HAVE_HWLOC 0)
if(LOCKSTEP_WANT_HWLOC STREQUAL "ON"
   OR NOT (LOCKSTEP_WANT_HWLOC STREQUAL "OFF" OR LOCKSTEP_HEADER_ONLY_DEPS))
  find_path(LOCKSTEP_HWLOC_INCLUDE hwloc.h)
  find_library(LOCKSTEP_HWLOC_LIBRARY hwloc)
  mark_as_advanced(LOCKSTEP_HWLOC_INCLUDE LOCKSTEP_HWLOC_LIBRARY)
  if(LOCKSTEP_HWLOC_INCLUDE AND LOCKSTEP_HWLOC_LIBRARY)
    file(STRINGS "${LOCKSTEP_HWLOC_INCLUDE}/hwloc.h" hwloc_version REGEX "define HWLOC_API_VERSION")
    string(REGEX REPLACE ".*(0x[0-9a-f]+).*" "\\1" hwloc_version "${hwloc_version}")
    math(EXPR hwloc_version "${hwloc_version}")
    math(EXPR hwloc_least "0x00020100")
    if(hwloc_version GREATER_EQUAL hwloc_least)
      set(LOCKSTEP_HAVE_HWLOC 1)
    endif()
  endif()
  if(LOCKSTEP_WANT_HWLOC STREQUAL "ON" AND NOT LOCKSTEP_HAVE_HWLOC)
    list(APPEND LOCKSTEP_MISSING "hwloc, because LOCKSTEP_WANT_HWLOC is ON")
  endif()
endif()

if(NOT TARGET lockstep::hwloc)
  add_library(lockstep::hwloc INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_HWLOC)
    target_include_directories(lockstep::hwloc SYSTEM INTERFACE "${LOCKSTEP_HWLOC_INCLUDE}")
    target_link_libraries(lockstep::hwloc INTERFACE "${LOCKSTEP_HWLOC_LIBRARY}")
  endif()
endif()

if(NOT LOCKSTEP_TRAINING)
  lockstep_report_missing()
  return()
endif()

find_package(Torch QUIET)
lockstep_require(Torch_FOUND "libtorch (-DLOCKSTEP_TRAINING=OFF builds the launcher without it)")
find_path(LOCKSTEP_XXHASH_INCLUDE xxhash.h HINTS "${LOCKSTEP_DEPS_DIR}/include")
mark_as_advanced(LOCKSTEP_XXHASH_INCLUDE)
lockstep_require(LOCKSTEP_XXHASH_INCLUDE "xxHash, the header xxhash.h")
lockstep_report_missing()

if(NOT TARGET lockstep::xxhash)
  add_library(lockstep::xxhash INTERFACE IMPORTED)
  target_include_directories(lockstep::xxhash SYSTEM INTERFACE "${LOCKSTEP_XXHASH_INCLUDE}")
endif()

# Gloo, found by its headers: the CUDA wheels of PyTorch contain the code but not the headers.
set(LOCKSTEP_HAVE_GLOO 0)
if(NOT LOCKSTEP_WANT_GLOO STREQUAL "OFF")
  find_path(LOCKSTEP_GLOO_INCLUDE gloo/transport/device.h)
  find_library(LOCKSTEP_GLOO_LIBRARY gloo)
  mark_as_advanced(LOCKSTEP_GLOO_INCLUDE LOCKSTEP_GLOO_LIBRARY)
  if(LOCKSTEP_GLOO_INCLUDE AND LOCKSTEP_GLOO_LIBRARY)
    set(LOCKSTEP_HAVE_GLOO 1)
  elseif(LOCKSTEP_WANT_GLOO STREQUAL "ON")
    list(APPEND LOCKSTEP_MISSING "gloo, because LOCKSTEP_WANT_GLOO is ON")
  endif()
endif()

# CUDA is used only if libtorch was built with it. The configuration of libtorch has already found
# nvcc.
set(LOCKSTEP_HAVE_CUDA 0)
if(TARGET torch_cuda)
  find_package(CUDAToolkit REQUIRED)
  set(LOCKSTEP_HAVE_CUDA 1)
endif()

# NCCL: that of libtorch, which its wheels contain, is preferred to that of the system.
set(LOCKSTEP_HAVE_NCCL 0)
if(LOCKSTEP_HAVE_CUDA AND NOT LOCKSTEP_WANT_NCCL STREQUAL "OFF")
  set(nccl_of_wheel "${TORCH_INSTALL_PREFIX}/../nvidia/nccl")
  find_path(LOCKSTEP_NCCL_INCLUDE nccl.h HINTS "${nccl_of_wheel}/include"
            PATHS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(LOCKSTEP_NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS "${nccl_of_wheel}/lib")
  mark_as_advanced(LOCKSTEP_NCCL_INCLUDE LOCKSTEP_NCCL_LIBRARY)
  if(LOCKSTEP_NCCL_INCLUDE AND LOCKSTEP_NCCL_LIBRARY)
    set(LOCKSTEP_HAVE_NCCL 1)
  endif()
endif()
if(LOCKSTEP_WANT_NCCL STREQUAL "ON" AND NOT LOCKSTEP_HAVE_NCCL)
  list(APPEND LOCKSTEP_MISSING "NCCL and a libtorch with CUDA, because LOCKSTEP_WANT_NCCL is ON")
endif()

if(NOT TARGET lockstep::nccl)
  add_library(lockstep::nccl INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_NCCL)
    target_include_directories(lockstep::nccl SYSTEM INTERFACE "${LOCKSTEP_NCCL_INCLUDE}")
    target_link_libraries(lockstep::nccl INTERFACE "${LOCKSTEP_NCCL_LIBRARY}" CUDA::cudart)
  endif()
endif()

if(NOT TARGET lockstep::cublas)
  add_library(lockstep::cublas INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_CUDA)
    target_link_libraries(lockstep::cublas INTERFACE CUDA::cublasLt CUDA::cudart)
  endif()
endif()

# The C interface of MPI, used from C++, without the C++ bindings that MPI has removed.
set(LOCKSTEP_HAVE_MPI 0)
if(NOT LOCKSTEP_WANT_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(LOCKSTEP_HAVE_MPI 1)
  elseif(LOCKSTEP_WANT_MPI STREQUAL "ON")
    list(APPEND LOCKSTEP_MISSING "MPI, because LOCKSTEP_WANT_MPI is ON")
  endif()
endif()

lockstep_report_missing()

# lockstep::torch: libtorch with c10d, and Gloo if its headers were found.
if(NOT TARGET lockstep::torch)
  add_library(lockstep::torch INTERFACE IMPORTED)
  target_link_libraries(lockstep::torch INTERFACE ${TORCH_LIBRARIES})
  if(LOCKSTEP_HAVE_GLOO)
    target_include_directories(lockstep::torch SYSTEM INTERFACE "${LOCKSTEP_GLOO_INCLUDE}")
    target_link_libraries(lockstep::torch INTERFACE "${LOCKSTEP_GLOO_LIBRARY}")
  endif()
endif()

if(NOT TARGET lockstep::mpi)
  add_library(lockstep::mpi INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_MPI)
    target_link_libraries(lockstep::mpi INTERFACE MPI::MPI_CXX)
  endif()
endif()
