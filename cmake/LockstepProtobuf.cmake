# lockstep_protobuf(NAME FILE.proto): a library of the messages, with their header FILE.pb.h.
#
# Written when the build is configured, so that clang-tidy, which builds nothing, finds the header.
# None of it is our code: no warnings, no style.
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
