// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of Loop: CUDA graphs.
#include <fmt/format.h>

#include "common/base/log.h"
#include "training/optim/fused.h"
#include "training/train/loop/loop.h"

namespace lockstep::train {

// Returns why this training cannot use a CUDA graph; empty: it can. The common cause is host code
// in the middle of a step, which a graph would not execute again.
std::string Loop::reason_against_graph() const {
  const std::string strategy(strategy_->name());
  if (session_.flags.cuda_graph == "off") {
    return "--cuda-graph off";
  }
  if (!has_graphs()) {
    return "CUDA graphs require a build with CUDA and libtorch 2.6 or later";
  }
  if (session_.communicator->size() > 1) {
    return "workers communicate through the host during a step";
  }
  if (strategy != "single" && strategy != "mirrored") {
    return fmt::format("-s {} schedules its communication on the host", strategy);
  }
  if (options_.accumulate > 1) {
    return "--accumulate splits a step into several parts";
  }
  if (loss_scaler_.is_on()) {
    return "the loss scale is computed on the host";
  }
  if (session_.flags.recompute) {
    return "--recompute restores random number generators on the host";
  }
  if (dynamic_cast<optim::FusedOptimizer*>(&task_.optimizer) == nullptr) {
    return "the optimizer must be sgd, adam or adamw from make_optimizer()";
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
    log::debug("recorded a CUDA graph of a step in {:.0f} ms",
               std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
  } else {
    reporter_.say("no CUDA graph: " + reason);
  }
}

}  // namespace lockstep::train
