// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/timed_training.h"

#include "common/base/median.h"
#include "tools/bench/report.h"
#include "tools/bench/timing.h"

namespace lockstep::bench {

TimedTraining::TimedTraining(Session& session,
                             std::shared_ptr<torch::nn::Module> net,
                             std::unique_ptr<torch::optim::Optimizer> optimizer,
                             const LossFunction& loss,
                             std::vector<Batch> batches,
                             int64_t max_steps)
    : device_(session.device()),
      net_(std::move(net)),
      optimizer_(std::move(optimizer)),
      loss_(session.in_precision(loss)),
      strategy_(session.make_strategy()),
      batches_(std::move(batches)),
      losses_(torch::zeros({max_steps}, torch::device(device_))) {
  strategy_->adopt(*net_, *optimizer_);
}

// Losses are copied within the device: reading one would wait for the GPU in every step.
// step_ counts the steps of run_by_parts() as well. All calls of run() must therefore come first;
// otherwise the index exceeds losses_.
void TimedTraining::run(int64_t steps) {
  for (int64_t i = 0; i < steps; ++i) {
    const Loss loss = strategy_->accumulate(loss_, next(), {});
    strategy_->step();
    losses_.select(0, step_ - 1).copy_(loss.value);
  }
}

// Forward is timed inside the loss function, backward is the remainder of accumulate().
// The sum of the parts exceeds the time of a step of run(): after each synchronization the device
// is idle until the host has queued new work. With several workers, the exchange of gradients
// counts as backward if it overlaps with backward, otherwise as update.
Parts TimedTraining::run_by_parts() {
  Parts parts;
  const LossFunction timed = [&](torch::nn::Module& model, const Batch& batch) {
    Loss loss;
    parts.forward = 1e3 * seconds_of(device_, [&] { loss = loss_(model, batch); });
    return loss;
  };
  const Batch& batch = next();
  const double both = 1e3 * seconds_of(device_, [&] { strategy_->accumulate(timed, batch, {}); });
  parts.backward = both - parts.forward;
  parts.update = 1e3 * seconds_of(device_, [&] { strategy_->step(); });
  return parts;
}

Parts TimedTraining::run_by_parts(int steps) {
  std::vector<double> forward;
  std::vector<double> backward;
  std::vector<double> update;
  for (int i = 0; i < steps; ++i) {
    const Parts parts = run_by_parts();
    forward.push_back(parts.forward);
    backward.push_back(parts.backward);
    update.push_back(parts.update);
  }
  return {.forward = median(forward), .backward = median(backward), .update = median(update)};
}

std::vector<double> TimedTraining::losses() const {
  const torch::Tensor all = losses_.to(torch::kCPU, torch::kFloat64);
  return {all.data_ptr<double>(), all.data_ptr<double>() + all.numel()};
}

const Batch& TimedTraining::next() {
  return batches_[static_cast<size_t>(step_++) % batches_.size()];
}

}  // namespace lockstep::bench
