// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/graph_step.h"

namespace lockstep::train {

bool has_graphs() {
  return false;
}

std::unique_ptr<GraphStep> record_step(const StepParts& /*parts*/,
                                       const Batch& /*batch*/,
                                       std::string& reason) {
  reason = "CUDA graphs require a build with CUDA and libtorch 2.6 or later";
  return nullptr;
}

}  // namespace lockstep::train
