// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// Who still has batches, where workers may run out of them at different steps. All workers call
// roll() at the start of each step, those that have joined too.
class Attendance {
 public:
  explicit Attendance(Communicator& communicator) : communicator_(communicator) {}

  // How many workers train this step; `here`: this one does.
  int roll(bool here);

  // After a roll: the lowest rank that trains this step.
  int first_here() const { return first_here_; }

  // After a roll of nobody: the worker that trained longest since the last such roll, of several
  // the highest rank.
  int last_to_join();

 private:
  Communicator& communicator_;
  int first_here_ = 0;
  int64_t steps_here_ = 0;
};

// Begins a step: calls the roll where there is one, and gives every worker the buffers of the first
// that trains. `here`: this worker does. False: nobody trains any more.
bool begin_step(Communicator& communicator,
                const torch::nn::Module& model,
                const StrategyOptions& options,
                Attendance* attendance,
                bool here);

// For join(): throws an Error where the strategy calls no roll.
void require_uneven(const StrategyOptions& options);

}  // namespace lockstep::strategy
