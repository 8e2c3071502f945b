// SPDX-License-Identifier: Apache-2.0
#include "common/base/check.h"

#include <cstdlib>

#include "common/base/log.h"

namespace lockstep {

void fail_check(const char* condition, const char* file, int line) {
  log::error("bug: {} does not hold ({}:{})", condition, file, line);
  std::abort();
}

}  // namespace lockstep
