// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <string>

#include "lockstep/error.h"
#include "training/deepspeed/config.h"

namespace lockstep::deepspeed {

// The error message for `text`; empty if it is accepted.
inline std::string refusal_of(const std::string& text) {
  try {
    parse_config(text, "ds.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

}  // namespace lockstep::deepspeed
