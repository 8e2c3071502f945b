// SPDX-License-Identifier: Apache-2.0
#include "strategy/attendance.h"

#include "lockstep/error.h"

namespace lockstep::strategy {

int Attendance::roll(bool here) {
  steps_here_ += here ? 1 : 0;
  torch::Tensor present = torch::zeros({communicator_.size()}, torch::dtype(torch::kInt64));
  present[communicator_.rank()] = here ? 1 : 0;
  communicator_.all_reduce(present);
  first_here_ = static_cast<int>(present.argmax().item<int64_t>());
  return static_cast<int>(present.sum().item<int64_t>());
}

int Attendance::last_to_join() {
  const int64_t size = communicator_.size();
  torch::Tensor key =
      torch::full({1}, steps_here_ * size + communicator_.rank(), torch::dtype(torch::kInt64));
  communicator_.all_reduce(key, Reduction::Max);
  steps_here_ = 0;
  return static_cast<int>(key.item<int64_t>() % size);
}

bool begin_step(Communicator& communicator,
                const torch::nn::Module& model,
                const StrategyOptions& options,
                Attendance* attendance,
                bool here) {
  int root = 0;
  if (attendance != nullptr) {
    if (attendance->roll(here) == 0) {
      return false;
    }
    root = attendance->first_here();
  }
  if (options.broadcast_buffers) {
    communicator.broadcast(model.buffers(), root);
  }
  return true;
}

void require_uneven(const StrategyOptions& options) {
  if (!options.uneven) {
    throw Error(ExitCode::Usage,
                "cannot join: this strategy was made for workers that run out of batches at the "
                "same step")
        .fact("asked", "uneven = false", "StrategyOptions")
        .hint("StrategyOptions{.uneven = true}");
  }
}

}  // namespace lockstep::strategy
