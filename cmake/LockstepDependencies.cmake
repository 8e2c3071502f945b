# What lockstep links. Read twice: by our own build, and by lockstepConfig.cmake on the machine of a
# client, which has set the same variables to what the build found:
#
#   LOCKSTEP_TRAINING         the worker tower is there
#   LOCKSTEP_HEADER_ONLY_DEPS fmt, spdlog, nlohmann-json and CLI11 come as headers, in
#                             LOCKSTEP_DEPS_DIR/include, and not as packages (tools/device.sh)
#   LOCKSTEP_WANT_HTTPLIB, LOCKSTEP_WANT_PROTOBUF, LOCKSTEP_WANT_HWLOC, LOCKSTEP_WANT_GLOO, LOCKSTEP_WANT_MPI, LOCKSTEP_WANT_NCCL
#                             AUTO: use it where it is found; ON: it must be there; OFF: without it
#
# Sets LOCKSTEP_HAVE_HWLOC, _GLOO, _MPI, _CUDA (libtorch's own) and _NCCL to 0 or 1. All targets made here are imported ones:
# an installed lockstep refers to them by name, never by a path of the machine that built it.

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(LOCKSTEP_HEADER_ONLY_DEPS)
  include("${CMAKE_CURRENT_LIST_DIR}/LockstepHeaderOnly.cmake")
else()
  find_package(fmt REQUIRED)
  find_package(spdlog REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
endif()

# ZeroMQ with its C++ header, and libsodium beneath its CURVE: the control plane of a run on several
# nodes. lockstep::zmq is nothing where they are not.
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
    message(FATAL_ERROR "ZeroMQ and libsodium are not found (Debian: libzmq3-dev cppzmq-dev "
                        "libsodium-dev); -DLOCKSTEP_WANT_ZMQ=OFF builds for one node only")
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

# yaml-cpp, the static one where it is: the launcher then runs on nodes that do not have it.
find_path(LOCKSTEP_YAML_INCLUDE yaml-cpp/yaml.h HINTS "${LOCKSTEP_DEPS_DIR}/include" REQUIRED)
find_library(LOCKSTEP_YAML_LIBRARY NAMES libyaml-cpp.a yaml-cpp
             HINTS "${LOCKSTEP_DEPS_DIR}/lib/${CMAKE_SYSTEM_PROCESSOR}" REQUIRED)
mark_as_advanced(LOCKSTEP_YAML_INCLUDE LOCKSTEP_YAML_LIBRARY)
if(NOT TARGET lockstep::yaml)
  add_library(lockstep::yaml INTERFACE IMPORTED)
  target_include_directories(lockstep::yaml SYSTEM INTERFACE "${LOCKSTEP_YAML_INCLUDE}")
  target_link_libraries(lockstep::yaml INTERFACE "${LOCKSTEP_YAML_LIBRARY}")
endif()

# libjpeg-turbo, the static one too where it is. Others that call themselves libjpeg cannot decode a
# part of an image.
find_path(LOCKSTEP_JPEG_INCLUDE jpeglib.h HINTS "${LOCKSTEP_DEPS_DIR}/include" REQUIRED)
find_library(LOCKSTEP_JPEG_LIBRARY NAMES libjpeg.a jpeg
             HINTS "${LOCKSTEP_DEPS_DIR}/lib/${CMAKE_SYSTEM_PROCESSOR}" REQUIRED)
mark_as_advanced(LOCKSTEP_JPEG_INCLUDE LOCKSTEP_JPEG_LIBRARY)
if(NOT TARGET lockstep::jpeg)
  add_library(lockstep::jpeg INTERFACE IMPORTED)
  target_include_directories(lockstep::jpeg SYSTEM INTERFACE "${LOCKSTEP_JPEG_INCLUDE}")
  target_link_libraries(lockstep::jpeg INTERFACE "${LOCKSTEP_JPEG_LIBRARY}")
endif()

# PCRE2, by its header and the library for texts of bytes.
find_path(LOCKSTEP_PCRE2_INCLUDE pcre2.h HINTS "${LOCKSTEP_DEPS_DIR}/include" REQUIRED)
find_library(LOCKSTEP_PCRE2_LIBRARY pcre2-8
             HINTS "${LOCKSTEP_DEPS_DIR}/lib/${CMAKE_SYSTEM_PROCESSOR}" REQUIRED)
mark_as_advanced(LOCKSTEP_PCRE2_INCLUDE LOCKSTEP_PCRE2_LIBRARY)
if(NOT TARGET lockstep::pcre2)
  add_library(lockstep::pcre2 INTERFACE IMPORTED)
  target_include_directories(lockstep::pcre2 SYSTEM INTERFACE "${LOCKSTEP_PCRE2_INCLUDE}")
  target_link_libraries(lockstep::pcre2 INTERFACE "${LOCKSTEP_PCRE2_LIBRARY}")
endif()

# cpp-httplib for the dashboard: Debian's, a library that was built with OpenSSL, zlib and Brotli, or
# the one header that it is elsewhere. lockstep::httplib is nothing where it is not.
set(LOCKSTEP_HAVE_HTTPLIB 0)
if(LOCKSTEP_WANT_HTTPLIB STREQUAL "ON"
   OR NOT (LOCKSTEP_WANT_HTTPLIB STREQUAL "OFF" OR LOCKSTEP_HEADER_ONLY_DEPS))
  find_path(LOCKSTEP_HTTPLIB_INCLUDE httplib.h)
  find_library(LOCKSTEP_HTTPLIB_LIBRARY cpp-httplib)
  mark_as_advanced(LOCKSTEP_HTTPLIB_INCLUDE LOCKSTEP_HTTPLIB_LIBRARY)
  if(LOCKSTEP_HTTPLIB_INCLUDE)
    set(LOCKSTEP_HAVE_HTTPLIB 1)
  elseif(LOCKSTEP_WANT_HTTPLIB STREQUAL "ON")
    message(FATAL_ERROR "cpp-httplib is wanted and not found (Debian: libcpp-httplib-dev)")
  endif()
endif()
if(NOT TARGET lockstep::httplib)
  add_library(lockstep::httplib INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_HTTPLIB)
    target_include_directories(lockstep::httplib SYSTEM INTERFACE "${LOCKSTEP_HTTPLIB_INCLUDE}")
    target_link_libraries(lockstep::httplib INTERFACE Threads::Threads)
    if(LOCKSTEP_HTTPLIB_LIBRARY)
      # As its package says: what is in its classes depends on these.
      target_compile_definitions(
        lockstep::httplib INTERFACE CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT
                                    CPPHTTPLIB_BROTLI_SUPPORT)
      target_link_libraries(lockstep::httplib INTERFACE "${LOCKSTEP_HTTPLIB_LIBRARY}")
    endif()
  endif()
endif()

# protobuf's small runtime, the static one too where it is, and its compiler: TensorBoard's files. It
# goes into the launcher alone, as libtorch brings a protobuf of its own. lockstep::protobuf is nothing
# where it is not.
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
    message(FATAL_ERROR "protobuf is wanted and not found (Debian: libprotobuf-dev protobuf-compiler)")
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

# hwloc from 2.1 on, by its headers: its own package configuration is not everywhere.
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
    message(FATAL_ERROR "hwloc is wanted and not found (Debian: libhwloc-dev)")
  endif()
endif()

# lockstep::hwloc: nothing where hwloc is not.
if(NOT TARGET lockstep::hwloc)
  add_library(lockstep::hwloc INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_HWLOC)
    target_include_directories(lockstep::hwloc SYSTEM INTERFACE "${LOCKSTEP_HWLOC_INCLUDE}")
    target_link_libraries(lockstep::hwloc INTERFACE "${LOCKSTEP_HWLOC_LIBRARY}")
  endif()
endif()

if(NOT LOCKSTEP_TRAINING)
  return()
endif()

# Torch's own configuration warns about what it does not need and prints what nobody asked.
find_package(Torch REQUIRED)
find_package(ZLIB REQUIRED)
find_path(LOCKSTEP_XXHASH_INCLUDE xxhash.h HINTS "${LOCKSTEP_DEPS_DIR}/include" REQUIRED)
mark_as_advanced(LOCKSTEP_XXHASH_INCLUDE)

if(NOT TARGET lockstep::xxhash)
  add_library(lockstep::xxhash INTERFACE IMPORTED)
  target_include_directories(lockstep::xxhash SYSTEM INTERFACE "${LOCKSTEP_XXHASH_INCLUDE}")
endif()

# Gloo, by its headers: the CUDA wheels of PyTorch hold the code but not the headers.
set(LOCKSTEP_HAVE_GLOO 0)
if(NOT LOCKSTEP_WANT_GLOO STREQUAL "OFF")
  find_path(LOCKSTEP_GLOO_INCLUDE gloo/transport/device.h)
  find_library(LOCKSTEP_GLOO_LIBRARY gloo)
  mark_as_advanced(LOCKSTEP_GLOO_INCLUDE LOCKSTEP_GLOO_LIBRARY)
  if(LOCKSTEP_GLOO_INCLUDE AND LOCKSTEP_GLOO_LIBRARY)
    set(LOCKSTEP_HAVE_GLOO 1)
  elseif(LOCKSTEP_WANT_GLOO STREQUAL "ON")
    message(FATAL_ERROR "gloo is wanted and not found (Debian: libgloo-dev)")
  endif()
endif()

# CUDA comes with libtorch or not at all; its configuration has found the compiler by then.
set(LOCKSTEP_HAVE_CUDA 0)
if(TARGET torch_cuda)
  find_package(CUDAToolkit REQUIRED)
  set(LOCKSTEP_HAVE_CUDA 1)
endif()

# NCCL: the one that libtorch was built with, which its wheels bring along, before the system's.
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
  message(FATAL_ERROR "NCCL is wanted and not found: a CUDA libtorch and nccl.h are needed")
endif()

# lockstep::nccl: nothing where NCCL is not.
if(NOT TARGET lockstep::nccl)
  add_library(lockstep::nccl INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_NCCL)
    target_include_directories(lockstep::nccl SYSTEM INTERFACE "${LOCKSTEP_NCCL_INCLUDE}")
    target_link_libraries(lockstep::nccl INTERFACE "${LOCKSTEP_NCCL_LIBRARY}" CUDA::cudart)
  endif()
endif()

# lockstep::cublas: nothing where CUDA is not.
if(NOT TARGET lockstep::cublas)
  add_library(lockstep::cublas INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_CUDA)
    target_link_libraries(lockstep::cublas INTERFACE CUDA::cublasLt CUDA::cudart)
  endif()
endif()

# MPI's C interface, through the C++ compiler and without the C++ bindings that MPI has dropped.
set(LOCKSTEP_HAVE_MPI 0)
if(NOT LOCKSTEP_WANT_MPI STREQUAL "OFF")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(LOCKSTEP_HAVE_MPI 1)
  elseif(LOCKSTEP_WANT_MPI STREQUAL "ON")
    message(FATAL_ERROR "MPI is wanted and not found (Debian: libopenmpi-dev)")
  endif()
endif()

# lockstep::torch: libtorch with c10d, and gloo beneath it where its headers are.
if(NOT TARGET lockstep::torch)
  add_library(lockstep::torch INTERFACE IMPORTED)
  target_link_libraries(lockstep::torch INTERFACE ${TORCH_LIBRARIES})
  if(LOCKSTEP_HAVE_GLOO)
    target_include_directories(lockstep::torch SYSTEM INTERFACE "${LOCKSTEP_GLOO_INCLUDE}")
    target_link_libraries(lockstep::torch INTERFACE "${LOCKSTEP_GLOO_LIBRARY}")
  endif()
endif()

# lockstep::mpi: nothing where MPI is not.
if(NOT TARGET lockstep::mpi)
  add_library(lockstep::mpi INTERFACE IMPORTED)
  if(LOCKSTEP_HAVE_MPI)
    target_link_libraries(lockstep::mpi INTERFACE MPI::MPI_CXX)
  endif()
endif()
