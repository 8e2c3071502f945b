# lockstep_compile_together(TARGET [ALONE ...])
#
# Compiles eight sources at a time (unity build), except those in ALONE. GCC treats an included
# source as a header and would warn of classes whose members have types of an unnamed namespace.
function(lockstep_compile_together name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "ALONE")
  if("${LOCKSTEP_UNITY}" STREQUAL "LAUNCHER")
    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/src/training/")
      return()
    endif()
  elseif(NOT LOCKSTEP_UNITY)
    return()
  endif()
  set_source_files_properties(${arg_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endfunction()

# lockstep_module(NAME SOURCES ... [ALONE ...] DEPS ... [LIBS ...] [TORCH [PLAIN ...]])
#
# One static library per module. DEPS is the line of the module in tools/layers.txt; the test
# `layering` compares the two. TORCH marks a module that uses libtorch: it links libtorch and shares
# one precompiled header. Its PLAIN sources do not need libtorch and compile faster without the
# precompiled header. SOURCES are compiled eight at a time, because included headers take seconds
# per compilation. ALONE lists sources whose local names conflict with those of another source, and
# sources that only a build with CUDA has.
function(lockstep_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;ALONE;PLAIN;DEPS;LIBS")
  list(TRANSFORM arg_DEPS PREPEND lockstep::)
  add_library(lockstep_${name} STATIC ${arg_SOURCES} ${arg_ALONE} ${arg_PLAIN})
  lockstep_compile_together(lockstep_${name} ALONE ${arg_ALONE} ${arg_PLAIN})
  set_source_files_properties(${arg_PLAIN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  add_library(lockstep::${name} ALIAS lockstep_${name})
  set_target_properties(lockstep_${name} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(lockstep_${name} PUBLIC cxx_std_20)
  target_include_directories(
    lockstep_${name}
    PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
           "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(
    lockstep_${name} PUBLIC ${arg_DEPS} ${arg_LIBS} PRIVATE $<BUILD_INTERFACE:lockstep::warnings>)
  if(arg_TORCH)
    target_link_libraries(lockstep_${name} PUBLIC lockstep::torch
                                           PRIVATE $<BUILD_INTERFACE:lockstep::torch_build>)
    target_precompile_headers(lockstep_${name} REUSE_FROM lockstep_torch_pch)
    set_target_properties(lockstep_${name} PROPERTIES JOB_POOL_COMPILE lockstep_torch)
  endif()
  # The tower is the first folder below src/: common, launcher, training or tools.
  cmake_path(RELATIVE_PATH CMAKE_CURRENT_SOURCE_DIR BASE_DIRECTORY "${PROJECT_SOURCE_DIR}/src" OUTPUT_VARIABLE folder)
  string(REGEX REPLACE "/.*" "" tower "${folder}")
  string(TOUPPER "${tower}" tower)
  set_property(GLOBAL APPEND PROPERTY LOCKSTEP_${tower}_MODULES lockstep_${name})
endfunction()

# lockstep_library(): defines lockstep::lockstep, the target that examples and clients link. It
# links all modules of src/training and must be called after them.
function(lockstep_library)
  get_property(modules GLOBAL PROPERTY LOCKSTEP_TRAINING_MODULES)
  add_library(lockstep_library INTERFACE)
  add_library(lockstep::lockstep ALIAS lockstep_library)
  set_target_properties(lockstep_library PROPERTIES EXPORT_NAME lockstep)
  list(TRANSFORM modules REPLACE "^lockstep_" "lockstep::")
  target_link_libraries(lockstep_library INTERFACE ${modules})
endfunction()

# Uses the precompiled header of the modules for a program. The header was compiled with -fPIC, and
# GCC accepts it only with the same option.
function(lockstep_share_precompiled name header)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ${header})
endfunction()

# lockstep_program(NAME SOURCES ...)
#
# A training program, bin/NAME, built like the program of a client, but with our warnings.
function(lockstep_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE lockstep::lockstep lockstep::torch_build
                                        lockstep::warnings)
  lockstep_share_precompiled(${name} lockstep_torch_pch)
endfunction()

# lockstep_test(NAME SOURCES ... DEPS ... [LIBS ...] [LABEL unit|distributed|...]
#               [TORCH [ALONE ...]] [SEPARATE] [TOGETHER] [TIMEOUT SECONDS])
#
# One test binary, tests/NAME; DEPS are modules. TORCH as above. A binary with TORCH is one test of
# ctest, because loading libtorch takes half a second; with SEPARATE, each case runs in its own
# process. TOGETHER makes a binary without TORCH one test, if its cases share an expensive fixture.
# Sources are compiled eight at a time, except those in ALONE, whose names conflict with others.
function(lockstep_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;SEPARATE;TOGETHER" "LABEL;TIMEOUT"
                        "SOURCES;ALONE;DEPS;LIBS")
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  if(NOT arg_LABEL)
    set(arg_LABEL unit)
  endif()
  list(TRANSFORM arg_DEPS PREPEND lockstep::)
  add_executable(${name} ${arg_SOURCES} ${arg_ALONE})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_include_directories(
    ${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/tests")
  target_compile_definitions(
    ${name} PRIVATE LOCKSTEP_BIN_DIR="${CMAKE_BINARY_DIR}/bin"
                    LOCKSTEP_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${arg_LIBS} GTest::gmock_main
                                        lockstep::warnings)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE lockstep::torch_build)
    lockstep_share_precompiled(${name} lockstep_torch_test_pch)
    # -O1 shortens compilation. The run time of a test is spent in libtorch.
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    set_target_properties(${name} PROPERTIES JOB_POOL_COMPILE lockstep_torch)
    lockstep_compile_together(${name} ALONE ${arg_ALONE})
  else()
    # -O0 applies to the test only. The tested code is in the modules, which are optimized.
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>
                                           $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    lockstep_share_precompiled(${name} lockstep_test_pch)
    lockstep_compile_together(${name} ALONE ${arg_ALONE})
  endif()
  if(arg_TOGETHER OR (arg_TORCH AND NOT arg_SEPARATE))
    add_test(NAME ${name} COMMAND ${name} "--gtest_brief=1"
                                  "--gtest_output=xml:${CMAKE_BINARY_DIR}/test-results/${name}.xml")
    # ctest lists a whole binary as a test even if it was not built. The label lets `make test-core`
    # exclude it.
    set(labels ${arg_LABEL})
    if(NOT name IN_LIST LOCKSTEP_CORE_TESTS)
      list(APPEND labels beyond-core)
    endif()
    # Ranks can be threads of one process, and each would otherwise use one thread per core.
    set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${arg_TIMEOUT}
                                            ENVIRONMENT OMP_NUM_THREADS=1)
  else()
    gtest_discover_tests(
      ${name}
      DISCOVERY_TIMEOUT 60
      DISCOVERY_MODE PRE_TEST
      NO_PRETTY_VALUES
      PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
  endif()
endfunction()

# lockstep_bench(NAME SOURCES ... DEPS ... [TORCH])
#
# One benchmark with Google Benchmark, bench/NAME in the build directory. Never a test.
function(lockstep_bench name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "SOURCES;DEPS;LIBS")
  list(TRANSFORM arg_DEPS PREPEND lockstep::)
  add_executable(${name} EXCLUDE_FROM_ALL ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(${name} PRIVATE ${arg_DEPS} ${arg_LIBS} benchmark::benchmark_main
                                        lockstep::warnings)
  if(arg_TORCH)
    target_link_libraries(${name} PRIVATE lockstep::torch_build)
    lockstep_share_precompiled(${name} lockstep_torch_pch)
  endif()
  add_dependencies(lockstep_benchmarks ${name})
endfunction()
