// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/uneven_inputs.h"

#include "lockstep/error.h"
#include "training/strategy/shared/share_state.h"

namespace lockstep::strategy {

UnevenInputs::UnevenInputs(Communicator& communicator, const StrategyOptions& options)
    : communicator_(communicator),
      is_uneven_(options.uneven),
      broadcasts_buffers_(options.broadcast_buffers) {}

void UnevenInputs::begin_step(const torch::nn::Module& model) {
  begin(model, true);
}

int UnevenInputs::shadow_others(const torch::nn::Module& model,
                                const std::function<void()>& shadow_step) {
  if (!is_uneven_) {
    throw Error(ExitCode::Usage, "cannot join: this strategy does not allow uneven inputs")
        .fact("requested", "uneven = false", "StrategyOptions")
        .hint("StrategyOptions{.uneven = true}");
  }
  while (begin(model, false)) {
    shadow_step();
  }
  return last_to_join();
}

int UnevenInputs::join(torch::nn::Module& model,
                       torch::optim::Optimizer& optimizer,
                       const std::function<void()>& shadow_step) {
  const int last = shadow_others(model, shadow_step);
  share_state(communicator_, model, optimizer, last);
  return last;
}

bool UnevenInputs::begin(const torch::nn::Module& model, bool is_active) {
  if (is_uneven_ && count_active(is_active) == 0) {
    return false;
  }
  // From the first active rank and not from rank 0, which may have joined and not trained the last
  // steps.
  if (broadcasts_buffers_) {
    communicator_.broadcast(model.buffers(), first_active_rank_);
  }
  return true;
}

int UnevenInputs::count_active(bool is_active) {
  steps_trained_ += is_active ? 1 : 0;
  torch::Tensor active = torch::zeros({communicator_.size()}, torch::dtype(torch::kInt64));
  active[communicator_.rank()] = is_active ? 1 : 0;
  communicator_.all_reduce(active);
  // argmax() returns the first of equal values.
  first_active_rank_ = static_cast<int>(active.argmax().item<int64_t>());
  return static_cast<int>(active.sum().item<int64_t>());
}

int UnevenInputs::last_to_join() {
  // The maximum of steps * size + rank is the most steps, and among equals the highest rank; the
  // remainder by size is the rank.
  const int64_t size = communicator_.size();
  torch::Tensor key =
      torch::full({1}, steps_trained_ * size + communicator_.rank(), torch::dtype(torch::kInt64));
  communicator_.all_reduce(key, Reduction::Max);
  steps_trained_ = 0;
  return static_cast<int>(key.item<int64_t>() % size);
}

}  // namespace lockstep::strategy
