// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim/optimizer.h>
#include <vector>

namespace lockstep::optim {

// For constructors of optimizers with options of their own. libtorch 2.14 replaces the options of
// each group by the defaults of the optimizer, except those of its own optimizers.
inline void keep_options(torch::optim::Optimizer& optimizer,
                         const std::vector<torch::optim::OptimizerParamGroup>& groups) {
  for (size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].has_options()) {
      optimizer.param_groups()[i].set_options(groups[i].options().clone());
    }
  }
}

}  // namespace lockstep::optim
