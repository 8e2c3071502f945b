# With -O3, GCC 12 warns of overflows that do not exist. -O3 gains nothing, because the time is
# spent in libtorch.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

# ccache if it is installed, and sanitizers if they are requested.
find_program(LOCKSTEP_CCACHE ccache)
mark_as_advanced(LOCKSTEP_CCACHE)
if(LOCKSTEP_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache caches precompiled headers only if it ignores their macros and time stamps.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${LOCKSTEP_CCACHE})
endif()
if(LOCKSTEP_SANITIZE)
  add_compile_options(-fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${LOCKSTEP_SANITIZE})
endif()
