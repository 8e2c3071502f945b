// SPDX-License-Identifier: Apache-2.0
#include "train/graph_step.h"

namespace lockstep::train {

bool has_graphs() {
  return false;
}

std::unique_ptr<GraphStep> record_step(const StepParts& /*parts*/,
                                       const Batch& /*batch*/,
                                       std::string& reason) {
  reason = "this build has no CUDA, or a libtorch before 2.6";
  return nullptr;
}

}  // namespace lockstep::train
