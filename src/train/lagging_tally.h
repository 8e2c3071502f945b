// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/metrics.h"
#include "train/agreement.h"
#include "train/loss_watch.h"
#include "train/run_ahead.h"

namespace lockstep::train {

// Reads what a worker has counted since the last talk. A GPU is not waited for: what it has counted
// sets out for main memory, and is told in the next talk.
class LaggingTally {
 public:
  // Takes the sums of `lately` and looks through the losses of `watch`; `norm` is one number, or
  // undefined. With `all` nothing stays on its way.
  Tally take(const Meter& lately, const LossWatch& watch, const torch::Tensor& norm, bool all);

 private:
  struct Sent {
    torch::Tensor values;  // in pinned memory: both sums, losses, and the norm if there is one
    bool has_norm = false;
    std::vector<int64_t> steps;
    int64_t samples = 0;
    int64_t scored = 0;
    std::optional<c10::Event> end;  // none: it is there
  };

  static Sent send(const Meter& lately, const LossWatch& watch, const torch::Tensor& norm);
  static void receive(const Sent& sent, Tally& tally);

  std::optional<Sent> on_its_way_;
};

}  // namespace lockstep::train
