// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <string_view>

#include "lockstep/error.h"

namespace lockstep::train {

// Thrown when training has stopped after a step because of a signal. No work is lost. It reaches
// run() like an Error but is reported as information.
class Stopped : public Error {
 public:
  Stopped(int signal, std::string_view sentence)
      : Error(signal == SIGINT ? ExitCode::Interrupted : ExitCode::TryAgain, sentence) {}
};

}  // namespace lockstep::train
