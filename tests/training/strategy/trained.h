// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <torch/torch.h>
#include <vector>

#include "lockstep/optimizer.h"
#include "lockstep/strategy.h"

namespace lockstep {

// Several layers, and a spare one that a step may leave unused.
struct Spared : torch::nn::Module {
  Spared()
      : first(register_module("first", torch::nn::Linear(12, 40))),
        second(register_module("second", torch::nn::Linear(40, 30))),
        third(register_module("third", torch::nn::Linear(30, 3))),
        spare(register_module("spare", torch::nn::Linear(12, 3))) {
    to(torch::kFloat64);
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{1});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(0.3 * torch::randn(parameter.sizes(), generator, parameter.options()));
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor scores = third(torch::tanh(second(torch::tanh(first(input)))));
    return uses_spare ? scores + spare(input) : scores;
  }

  torch::nn::Linear first;
  torch::nn::Linear second;
  torch::nn::Linear third;
  torch::nn::Linear spare;
  bool uses_spare = true;
};

struct Training {
  std::string strategy = "ddp";
  int steps = 6;
  int accumulate = 1;
  int64_t share = 4;  // samples per micro-batch
  double clip = 0;
  OptimizerOptions optimizer = {.name = "sgd", .lr = 0.05, .momentum = 0.9, .weight_decay = 0.01};
  // Whether a micro-batch uses the spare layer.
  std::function<bool(int step, int rank, int part)> uses_spare = [](int, int, int) {
    return true;
  };
};

inline Batch sample(int64_t count, int number) {
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(number));
  return {torch::randn({count, 12}, generator, torch::dtype(torch::kFloat64)),
          torch::randint(3, {count}, generator)};
}

inline torch::Tensor flat_state(const torch::nn::Module& model) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& each : model.parameters()) {
    all.push_back(each.detach().flatten());
  }
  return torch::cat(all);
}

inline int sample_number(int step, int rank, int part) {
  return step * 100 + rank * 10 + part;
}

// The parameters after the last step.
inline torch::Tensor train(Communicator& comm,
                           const StrategyOptions& options,
                           const Training& training = {}) {
  Spared model;
  const auto optimizer = make_optimizer(model.parameters(), training.optimizer);
  const auto strategy = make_strategy(training.strategy, comm, options);
  strategy->adopt(model, *optimizer);
  for (int step = 0; step < training.steps; ++step) {
    for (int part = 0; part < training.accumulate; ++part) {
      model.uses_spare = training.uses_spare(step, comm.rank(), part);
      strategy->accumulate(
          loss_of<Spared>(CrossEntropy()),
          sample(training.share, sample_number(step, comm.rank(), part)),
          {.weight = 1.0 / training.accumulate, .last = part + 1 == training.accumulate});
    }
    strategy->step({.clip_norm = training.clip});
  }
  const auto use = strategy->use_model();
  return flat_state(model);
}

// The same training in one process that computes the micro-batches of all `workers`.
inline torch::Tensor train_alone(Communicator& solo, int workers, const Training& training = {}) {
  Spared model;
  const auto optimizer = make_optimizer(model.parameters(), training.optimizer);
  const auto strategy = make_strategy("single", solo);
  strategy->adopt(model, *optimizer);
  const int shares = workers * training.accumulate;
  for (int step = 0; step < training.steps; ++step) {
    for (int share = 0; share < shares; ++share) {
      const int rank = share / training.accumulate;
      const int part = share % training.accumulate;
      model.uses_spare = training.uses_spare(step, rank, part);
      strategy->accumulate(loss_of<Spared>(CrossEntropy()),
                           sample(training.share, sample_number(step, rank, part)),
                           {.weight = 1.0 / shares, .last = share + 1 == shares});
    }
    strategy->step({.clip_norm = training.clip});
  }
  return flat_state(model);
}

inline double largest_difference(const torch::Tensor& found, const torch::Tensor& wanted) {
  return (found - wanted).abs().max().item<double>();
}

}  // namespace lockstep
