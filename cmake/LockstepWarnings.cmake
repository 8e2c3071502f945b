# lockstep::warnings: the warnings for our own code. Headers of third parties are system includes.
add_library(lockstep_warnings INTERFACE)
add_library(lockstep::warnings ALIAS lockstep_warnings)
target_compile_options(
  lockstep_warnings
  INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wundef>"
            "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${LOCKSTEP_WERROR}>>:-Werror>")
