# lockstep_protobuf(NAME FILE.proto): a library with the messages and their header FILE.pb.h.
#
# The code is generated at configure time, so that clang-tidy finds the header without a build. It
# is compiled without our warnings.
function(lockstep_protobuf name file)
  cmake_path(GET file STEM stem)
  set(directory "${CMAKE_BINARY_DIR}/protobuf")
  file(MAKE_DIRECTORY "${directory}")
  execute_process(
    COMMAND "${LOCKSTEP_PROTOC}" "--proto_path=${CMAKE_CURRENT_SOURCE_DIR}" "--cpp_out=${directory}"
            "${file}"
    COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  add_library(${name} STATIC "${directory}/${stem}.pb.cc")
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} SYSTEM PUBLIC "${directory}")
  target_link_libraries(${name} PUBLIC lockstep::protobuf)
endfunction()
