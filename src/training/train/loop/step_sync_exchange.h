// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/communicator.h"
#include "training/train/loop/loss_watch.h"
#include "training/train/loop/step_sync_interval.h"

namespace lockstep::train {

// The result of a status exchange; the same on every worker.
struct StepSyncResult {
  bool stop = false;                // at least one worker has received a stop signal
  double loss = 0;                  // mean over all workers since the last exchange
  double accuracy = -1;             // likewise; negative: no samples were scored
  std::optional<BadLoss> bad_loss;  // the first since the last exchange
  int bad_rank = 0;                 // its rank; the lowest if several had it in the same step
  bool bad_weights = false;         // on at least one worker
  bool save_done = false;           // rank 0 has completed the checkpoint
  bool save_failed = false;         // at least one worker could not write its part
  // Whether this worker has sent samples. Not if all steps since the last exchange were skipped.
  bool has_samples = false;
};

// The contribution of one worker to a status exchange.
struct WorkerStatus {
  double loss_sum = 0;
  double samples = 0;
  double correct = 0;
  double scored = 0;
  std::optional<double> gradient_norm = {};  // identical on all workers; not sent
  bool stop = false;
  std::optional<BadLoss> bad_loss = {};
  bool bad_weights = false;
  bool save_done = false;
  bool save_failed = false;
};

// The periodic status exchange of all workers: one all-gather of a small vector (WorkerStatus),
// about four times per second. This is frequent enough to stop within a second and to update the
// progress, and rare enough to have no measurable cost.
//
// All workers must exchange after the same step, although their clocks differ. Each exchange
// therefore includes the number of steps until the next one, and all workers use the value of
// rank 0.
class StepSyncExchange {
 public:
  explicit StepSyncExchange(Communicator& communicator) : communicator_(communicator) {}

  // Whether a status exchange is due after `step`. The first one is due immediately.
  bool is_due(int64_t step) const { return step >= next_step_; }

  // Performs the exchange. All workers must call it after the same step.
  StepSyncResult run(int64_t step, const WorkerStatus& mine);

 private:
  Communicator& communicator_;
  int64_t next_step_ = 0;
  StepSyncInterval interval_;
};

}  // namespace lockstep::train
