// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

struct TensorboardOptions {
  std::string run;
  std::string directory;            // empty: in the run directory
  std::vector<std::string> series;  // patterns; empty: all except series of single ranks
  bool is_following = false;
  bool is_waiting = false;  // the run need not have started
};

// `lockstep export --format tensorboard`; returns the exit code.
int export_tensorboard(const TensorboardOptions& options);

}  // namespace lockstep::cli
