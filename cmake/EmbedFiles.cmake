# lockstep_embed(RESULT FILE...): generates a source file that contains the files as byte arrays,
# for launcher/monitor/page_files.h.
#
# Run as a script (-DOUTPUT=... -DFILES=a;b), this file writes that source file.
if(CMAKE_SCRIPT_MODE_FILE)
  set(arrays "")
  set(table "")
  set(number 0)
  foreach(file IN LISTS FILES)
    cmake_path(GET file FILENAME name)
    file(READ "${file}" bytes HEX)
    string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
    string(APPEND arrays "const char kFile${number}[] = {\n${bytes}'\\0'};\n")
    string(APPEND table "    {\"${name}\", {kFile${number}, sizeof(kFile${number}) - 1}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  file(WRITE "${OUTPUT}" "#include \"launcher/monitor/page_files.h\"\n\n"
       "namespace lockstep::monitor {\nnamespace {\n${arrays}"
       "const PageFile kFiles[] = {\n${table}};\n}  // namespace\n\n"
       "std::span<const PageFile> page_files() { return kFiles; }\n}  // namespace lockstep::monitor\n")
  return()
endif()

set(LOCKSTEP_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(lockstep_embed result)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/page_files.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND ${CMAKE_COMMAND} "-DOUTPUT=${output}" "-DFILES=${ARGN}" -P "${LOCKSTEP_EMBED_SCRIPT}"
    DEPENDS ${ARGN} "${LOCKSTEP_EMBED_SCRIPT}"
    COMMENT "Embedding the page of the dashboard"
    VERBATIM)
  set(${result} "${output}" PARENT_SCOPE)
endfunction()
