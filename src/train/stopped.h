// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::train {

// Training was asked to end and did so at the end of a step; nothing is lost. Leaves through run()
// like an Error, but it is news, not a fault.
class Stopped : public Error {
 public:
  Stopped(int signal, std::string_view sentence)
      : Error(signal == SIGINT ? ExitCode::Interrupted : ExitCode::TryAgain, sentence) {}
};

}  // namespace lockstep::train
