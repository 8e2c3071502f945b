// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

namespace lockstep::strategy {

// How steps begin, and who still has batches where workers may run out of them at different steps
// (StrategyOptions::uneven). There, all workers call a roll at the start of each step, those that
// have joined too.
class Attendance {
 public:
  Attendance(Communicator& communicator, const StrategyOptions& options);

  // At the start of a step that this worker trains: calls the roll, and gives every worker the
  // buffers of the first that trains.
  void begin_step(const torch::nn::Module& model);

  // Goes along with the steps of the others, by `give_nothing`, until nobody trains. Returns the
  // worker that trained longest since the last such end, of several the highest rank. Throws an
  // Error where no roll is called.
  int go_along(const torch::nn::Module& model, const std::function<void()>& give_nothing);

  // Strategy::join(): goes along, and takes over what the last to join holds.
  int join(torch::nn::Module& model,
           torch::optim::Optimizer& optimizer,
           const std::function<void()>& give_nothing);

  // In a step: the lowest rank that trains it.
  int first_here() const { return first_here_; }

 private:
  // False: nobody trains any more. `here`: this worker does.
  bool begin(const torch::nn::Module& model, bool here);
  // How many workers train this step.
  int roll(bool here);
  // After a roll of nobody.
  int last_to_join();

  Communicator& communicator_;
  bool is_uneven_;
  bool broadcasts_buffers_;
  int first_here_ = 0;
  int64_t steps_here_ = 0;
};

}  // namespace lockstep::strategy
