// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

// Logs "bug: condition (file:line)" and aborts.
[[noreturn]] void fail_check(const char* condition, const char* file, int line);

}  // namespace lockstep

// For conditions that only a bug can break. Everything that a user can cause throws an Error.
#define LOCKSTEP_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::lockstep::fail_check(#condition, __FILE__, __LINE__))
