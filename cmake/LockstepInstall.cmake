# cmake --install installs the launcher. With the training library, it also installs the public
# headers, the modules, and the files for find_package(lockstep). A client links lockstep::lockstep.
include(CMakePackageConfigHelpers)

set_target_properties(lockstep PROPERTIES EXPORT_NAME launcher)
add_custom_target(lockstep_installed DEPENDS lockstep)
# Site profiles. The launcher searches share/lockstep next to its own directory, also in a build
# directory.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/sites" DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep"
        FILES_MATCHING PATTERN "*.yaml")
# The dashboard for Grafana.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/share/grafana" DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep"
        FILES_MATCHING PATTERN "*.json")
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/share/lockstep")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/sites" "${CMAKE_BINARY_DIR}/share/lockstep/sites" SYMBOLIC)
if(NOT LOCKSTEP_TRAINING)
  install(TARGETS lockstep RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
  return()
endif()

# The programs that lockstep-bench --peer runs.
install(DIRECTORY "${PROJECT_SOURCE_DIR}/benchmarks/peers" DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep"
        FILES_MATCHING PATTERN "*.py")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}/benchmarks/peers" "${CMAKE_BINARY_DIR}/share/lockstep/peers"
     SYMBOLIC)

get_property(common_modules GLOBAL PROPERTY LOCKSTEP_COMMON_MODULES)
get_property(training_modules GLOBAL PROPERTY LOCKSTEP_TRAINING_MODULES)

add_dependencies(lockstep_installed lockstep-ckpt lockstep-tokens lockstep-bench
                 ${common_modules} ${training_modules})

set(config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
install(
  TARGETS lockstep lockstep-ckpt lockstep-tokens lockstep-bench lockstep_library
          ${common_modules} ${training_modules}
  EXPORT lockstep
  RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/lockstep"
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT lockstep NAMESPACE lockstep:: FILE lockstepTargets.cmake DESTINATION ${config_dir})

configure_package_config_file(
  "${PROJECT_SOURCE_DIR}/cmake/lockstepConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/lockstepConfig.cmake"
  INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/lockstepConfig.cmake"
        "${PROJECT_BINARY_DIR}/lockstepConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/LockstepDependencies.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/LockstepHeaderOnly.cmake"
  DESTINATION ${config_dir})
