// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/trainer.h"
#include "training/train/loop/checkpointing.h"
#include "training/train/loop/task.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Decides when Checkpointing saves, settles and publishes, and reports each checkpoint to events
// and callbacks. All workers must make the same calls.
class CheckpointDriver {
 public:
  using Clock = std::chrono::steady_clock;
  using Callbacks = std::vector<std::unique_ptr<Callback>>;

  // All references must outlive this.
  CheckpointDriver(SessionParts& session,
                   const TrainerOptions& options,
                   const Task& task,
                   const Callbacks& callbacks);

  // As those of Checkpointing.
  void prepare() { checkpointing_.prepare(); }
  std::optional<Checkpointing::Restored> restore(Strategy& strategy);
  bool is_done() const { return checkpointing_.is_done(); }
  bool has_failed() const { return checkpointing_.has_failed(); }

  // Whether save() is wanted after `step`: checkpoints are on, and the step has none.
  bool is_missing(int64_t step) const;

  // Starts to write a checkpoint; waits for it if checkpoints are not asynchronous. settle() must
  // have been called. `begun`: the time at which training was suspended for it.
  void save(const CheckpointState& checkpoint,
            const TrainState& state,
            const Strategy& strategy,
            const std::vector<TensorPiece>& averages,
            Clock::time_point begun);

  // Waits for the save in progress, if there is one, and reports it.
  void settle(bool failed_elsewhere = false);

  // Writes the weights of the newest checkpoint to the run directory, also if it is that of a
  // previous process: it may have been killed before it published them.
  void publish_weights();

  // The last complete checkpoint of this attempt; empty: none.
  const std::string& last() const { return last_; }

 private:
  // A save that is not settled yet.
  struct Saving {
    TrainState state;
    Clock::time_point begun;
    double stall = 0;  // seconds for which training was suspended
  };

  SessionParts& session_;
  const TrainerOptions& options_;
  const Callbacks& callbacks_;
  Checkpointing checkpointing_;
  std::optional<Saving> saving_;
  std::string last_;
  std::string resumed_from_;
  int64_t saved_step_ = -1;
};

}  // namespace lockstep::train
