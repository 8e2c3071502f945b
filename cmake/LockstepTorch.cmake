# Targets for code that uses libtorch, in lockstep's own build:
#
#   lockstep::torch_build    libtorch, and the header that libtorch 1.13 forgot to ship
#   lockstep_torch_pch       the precompiled header of modules and programs
#   lockstep_torch_test_pch  the same with GoogleTest, for tests
#   lockstep_torch           the job pool: as many compilers as there is memory for
cmake_host_system_information(RESULT memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
math(EXPR torch_jobs "${memory_mib} / 2500 + 1")
set_property(GLOBAL APPEND PROPERTY JOB_POOLS lockstep_torch=${torch_jobs})

foreach(kind IN ITEMS GLOO MPI NCCL)
  if(NOT LOCKSTEP_HAVE_${kind})
    message(STATUS "${kind} is not here: lockstep is built without that communicator")
  endif()
endforeach()

# Ours is looked up last, so that the real header wins where it exists.
add_library(lockstep_torch_build INTERFACE)
add_library(lockstep::torch_build ALIAS lockstep_torch_build)
target_link_libraries(lockstep_torch_build INTERFACE lockstep::torch)
target_compile_options(lockstep_torch_build
                       INTERFACE "SHELL:-idirafter ${PROJECT_SOURCE_DIR}/src/training/comm/missing_headers"
                                 $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>) # for ccache
# GCC 14 and newer report accesses out of bounds in inlined functions of libtorch's headers that are none.
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

# Not <torch/torch.h>: with the modules of torch::nn, every unit compiles 3 s longer, also an empty one.
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
  # As tests are compiled: GCC 14 does not use a precompiled header of another level.
  target_compile_options(lockstep_torch_test_pch PRIVATE $<$<CONFIG:Release>:-O1>)
endif()
