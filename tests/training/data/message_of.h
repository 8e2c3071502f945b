// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "lockstep/error.h"

namespace lockstep {

// Exit code and full text of the Error that `body` throws: "74 cannot read ...".
inline std::string message_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "nothing was thrown";
}

}  // namespace lockstep
