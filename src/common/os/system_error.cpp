// SPDX-License-Identifier: Apache-2.0
#include "common/os/system_error.h"

#include <system_error>

namespace lockstep::os {

Error system_error(ExitCode code, std::string_view sentence, int number) {
  return Error(code, sentence).fact("reason", std::generic_category().message(number), "system");
}

}  // namespace lockstep::os
