// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "lockstep/metrics.h"
#include "training/train/loop/loss_watch.h"
#include "training/train/loop/run_ahead.h"
#include "training/train/loop/step_sync_exchange.h"

namespace lockstep::train {

// Collects the sums of a worker for a status exchange (StepSyncExchange) without waiting for the
// GPU: the values start an asynchronous copy to pinned memory and are part of the next exchange.
// The exchange therefore lags behind by one interval, about a quarter of a second.
class DelayedStatus {
 public:
  // Takes the sums of `recent`, the losses of `watch` and `norm`, which is a scalar or undefined.
  // With `all`, waits for the GPU so that nothing remains in transit.
  WorkerStatus take(const Meter& recent,
                    const LossWatch& watch,
                    const torch::Tensor& norm,
                    bool all);

 private:
  struct Sent {
    torch::Tensor values;  // pinned memory: [loss sum, correct, losses..., norm if has_norm]
    bool has_norm = false;
    std::vector<int64_t> steps;
    int64_t samples = 0;
    int64_t scored = 0;
    std::optional<c10::Event> end;  // of the copy; absent: the values are available
  };

  static Sent send(const Meter& recent, const LossWatch& watch, const torch::Tensor& norm);
  static void receive(const Sent& sent, WorkerStatus& status);

  std::optional<Sent> in_transit_;
};

}  // namespace lockstep::train
