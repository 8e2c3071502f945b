// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace lockstep::cli {

struct TensorboardWishes {
  std::string run;
  std::string directory;            // empty: in the run directory
  std::vector<std::string> series;  // patterns; none: all but those of single ranks
  bool is_following = false;
  bool is_waiting = false;  // the run need not have begun
};

// `lockstep export --format tensorboard`: the code with which it ends.
int export_tensorboard(const TensorboardWishes& wishes);

}  // namespace lockstep::cli
