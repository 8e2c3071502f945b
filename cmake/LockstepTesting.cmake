# GoogleTest: the sources that tools/device.sh packed, if they are used, or else the package.
if(LOCKSTEP_HEADER_ONLY_DEPS AND EXISTS "${LOCKSTEP_DEPS_DIR}/googletest/CMakeLists.txt")
  set(INSTALL_GTEST OFF)
  set(BUILD_GMOCK ON)
  add_subdirectory("${LOCKSTEP_DEPS_DIR}/googletest" googletest EXCLUDE_FROM_ALL SYSTEM)
  foreach(library IN ITEMS gtest gtest_main gmock gmock_main)
    if(NOT TARGET GTest::${library})
      add_library(GTest::${library} ALIAS ${library})
    endif()
  endforeach()
else()
  find_package(GTest QUIET)
  lockstep_require(GTest_FOUND "GoogleTest with GoogleMock (-DLOCKSTEP_TESTS=OFF builds without tests)")
  lockstep_report_missing()
endif()
include(GoogleTest)

# LOCKSTEP_PYTHON: the interpreter of tests that compare with PyTorch. It is only cached if it has
# torch, so that a torch installed later is found. Without one, those tests are skipped by name.
if(NOT LOCKSTEP_PYTHON)
  execute_process(
    COMMAND "${PROJECT_SOURCE_DIR}/tools/find_python.sh" torch
    OUTPUT_VARIABLE python_with_torch
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(python_with_torch)
    set(LOCKSTEP_PYTHON "${python_with_torch}" CACHE FILEPATH "Python interpreter with torch")
    mark_as_advanced(LOCKSTEP_PYTHON)
  else()
    set(LOCKSTEP_PYTHON python3)
  endif()
endif()
