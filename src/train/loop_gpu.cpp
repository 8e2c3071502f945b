// SPDX-License-Identifier: Apache-2.0
//
// Loop's part for GPUs: whether a step is recorded.
#include <fmt/format.h>

#include "base/log.h"
#include "optim/fused.h"
#include "train/loop.h"

namespace lockstep::train {

// Why a step is not recorded; empty: it is.
std::string Loop::reason_against_graph() const {
  const std::string strategy(strategy_->name());
  if (session_.flags.cuda_graph == "off") {
    return "--cuda-graph off";
  }
  if (!has_graphs()) {
    return "this build has no CUDA, or a libtorch before 2.6";
  }
  if (session_.communicator->size() > 1) {
    return "several workers talk on the host in the middle of a step";
  }
  if (strategy != "single" && strategy != "mirrored") {
    return fmt::format("-s {} decides on the host what travels when", strategy);
  }
  if (options_.accumulate > 1) {
    return "a step has several parts (--accumulate)";
  }
  if (loss_scaler_.is_on()) {
    return "the loss scale is decided on the host";
  }
  if (session_.flags.recompute) {
    return "--recompute sets random numbers back on the host";
  }
  if (dynamic_cast<optim::FusedOptimizer*>(&task_.optimizer) == nullptr) {
    return "the optimizer is not sgd, adam or adamw from make_optimizer()";
  }
  return "";
}

void Loop::record_graph(const Batch& batch) {
  std::string reason;
  const auto begun = Clock::now();
  steps_before_graph_ = -1;
  graph_ = record_step({.strategy = *strategy_,
                        .model = task_.model,
                        .optimizer = task_.optimizer,
                        .loss = task_.loss,
                        .step = {.clip_norm = options_.clip_norm, .wants_norm = false}},
                       batch,
                       reason);
  if (graph_ != nullptr) {
    log::debug("recorded a step in {:.0f} ms",
               std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
  } else {
    progress_.say("no CUDA graph: " + reason);
  }
}

}  // namespace lockstep::train
