// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"

namespace lockstep::bench {

// Duration of the parts of a step in milliseconds.
struct Parts {
  double forward = 0;
  double backward = 0;
  double update = 0;
};

// A custom training loop without the Trainer. It repeats the same batches, so that the loss falls.
class TimedTraining {
 public:
  // `max_steps` is the maximum total number of steps of run().
  TimedTraining(Session& session,
                std::shared_ptr<torch::nn::Module> net,
                std::unique_ptr<torch::optim::Optimizer> optimizer,
                const LossFunction& loss,
                std::vector<Batch> batches,
                int64_t max_steps);

  // Does not synchronize with the device: losses stay there until losses() is called.
  void run(int64_t steps);

  // Runs more steps with a synchronization after each part; returns medians.
  Parts run_by_parts(int steps);

  // The losses of all steps of run().
  std::vector<double> losses() const;

  torch::Device device() const { return device_; }

 private:
  Parts run_by_parts();
  const Batch& next();

  torch::Device device_;
  std::shared_ptr<torch::nn::Module> net_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  LossFunction loss_;
  std::unique_ptr<Strategy> strategy_;
  std::vector<Batch> batches_;
  torch::Tensor losses_;
  int64_t step_ = 0;
};

}  // namespace lockstep::bench
