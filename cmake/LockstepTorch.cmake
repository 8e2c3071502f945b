# Targets for code that uses libtorch, in the build of lockstep:
#
#   lockstep::torch_build    libtorch, and a header that is missing in libtorch 1.13
#   lockstep_torch_pch       the precompiled header of modules and programs
#   lockstep_torch_test_pch  the same with GoogleTest, for tests
#   lockstep_torch           job pool that limits parallel compilers by the memory of the machine
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR torch_jobs "${memory_mib} / 2500 + 1")
set_property(GLOBAL APPEND PROPERTY JOB_POOLS lockstep_torch=${torch_jobs})

foreach(kind IN ITEMS GLOO MPI NCCL)
  if(NOT LOCKSTEP_HAVE_${kind})
    message(STATUS "${kind} is not available: lockstep is built without this communicator")
  endif()
endforeach()

# Our copy of the missing header is searched last, so that the original is used if it exists.
add_library(lockstep_torch_build INTERFACE)
add_library(lockstep::torch_build ALIAS lockstep_torch_build)
target_link_libraries(lockstep_torch_build INTERFACE lockstep::torch)
target_compile_options(lockstep_torch_build
                       INTERFACE "SHELL:-idirafter ${PROJECT_SOURCE_DIR}/src/training/comm/missing_headers"
                                 $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>) # for ccache
# False positives: GCC 14 and newer report out-of-bounds accesses in inline functions of libtorch.
target_compile_options(
  lockstep_torch_build
  INTERFACE
    "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_GREATER_EQUAL:$<CXX_COMPILER_VERSION>,14>>:-Wno-array-bounds>"
)

function(lockstep_torch_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS;LIBS")
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${name}.cpp" CONTENT "")
  add_library(${name} OBJECT "${CMAKE_BINARY_DIR}/${name}.cpp")
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE lockstep::torch_build lockstep::warnings ${arg_LIBS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  set_target_properties(${name} PROPERTIES JOB_POOL_COMPILE lockstep_torch)
endfunction()

# Does not include <torch/torch.h>: with the modules of torch::nn, even an empty source takes 3 s
# longer.
lockstep_torch_precompiled(
  lockstep_torch_pch
  HEADERS <torch/autograd.h> <torch/nn/module.h> <torch/optim.h> <torch/types.h> <torch/utils.h>
          <fmt/format.h>
  LIBS fmt::fmt)
if(LOCKSTEP_TESTS)
  lockstep_torch_precompiled(
    lockstep_torch_test_pch
    HEADERS <torch/torch.h> <fmt/format.h> <gmock/gmock.h>
    LIBS fmt::fmt GTest::gmock)
  # The same level as for tests: GCC 14 rejects a precompiled header of another optimization level.
  target_compile_options(lockstep_torch_test_pch PRIVATE $<$<CONFIG:Release>:-O1>)
endif()
