# lockstep::warnings: what our own code is compiled with; third parties are system includes.
add_library(lockstep_warnings INTERFACE)
add_library(lockstep::warnings ALIAS lockstep_warnings)
target_compile_options(
  lockstep_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                              $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>)
