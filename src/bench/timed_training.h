// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <torch/torch.h>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"

namespace lockstep::bench {

// Milliseconds of the parts of a step.
struct Parts {
  double forward = 0;
  double backward = 0;
  double update = 0;
};

// A training as a program with a loop of its own has it, over the same batches again and again, so
// that the loss falls.
class TimedTraining {
 public:
  // `most_steps`: how many run() makes in all.
  TimedTraining(Session& session,
                std::shared_ptr<torch::nn::Module> net,
                std::unique_ptr<torch::optim::Optimizer> optimizer,
                const LossFunction& loss,
                std::vector<Batch> batches,
                int64_t most_steps);

  // Nothing here waits for the device: the loss stays there until losses().
  void run(int64_t steps);

  // Some more steps, with a wait between their parts; medians.
  Parts run_by_parts(int steps);

  // Of the steps of run().
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
