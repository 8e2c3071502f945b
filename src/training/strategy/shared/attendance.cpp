// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/attendance.h"

#include "lockstep/error.h"
#include "training/strategy/shared/share_state.h"

namespace lockstep::strategy {

Attendance::Attendance(Communicator& communicator, const StrategyOptions& options)
    : communicator_(communicator),
      is_uneven_(options.uneven),
      broadcasts_buffers_(options.broadcast_buffers) {}

void Attendance::begin_step(const torch::nn::Module& model) {
  begin(model, true);
}

int Attendance::go_along(const torch::nn::Module& model,
                         const std::function<void()>& give_nothing) {
  if (!is_uneven_) {
    throw Error(ExitCode::Usage, "cannot join: this strategy does not allow uneven inputs")
        .fact("asked", "uneven = false", "StrategyOptions")
        .hint("StrategyOptions{.uneven = true}");
  }
  while (begin(model, false)) {
    give_nothing();
  }
  return last_to_join();
}

int Attendance::join(torch::nn::Module& model,
                     torch::optim::Optimizer& optimizer,
                     const std::function<void()>& give_nothing) {
  const int last = go_along(model, give_nothing);
  share_state(communicator_, model, optimizer, last);
  return last;
}

bool Attendance::begin(const torch::nn::Module& model, bool here) {
  if (is_uneven_ && roll(here) == 0) {
    return false;
  }
  if (broadcasts_buffers_) {
    communicator_.broadcast(model.buffers(), first_here_);
  }
  return true;
}

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

}  // namespace lockstep::strategy
