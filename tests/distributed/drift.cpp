// SPDX-License-Identifier: Apache-2.0
#include "distributed/drift.h"

#include <algorithm>
#include <torch/nn.h>

#include "lockstep/optimizer.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

// Without batch norm, whose statistics depend on the part of a worker in every framework.
struct Net : torch::nn::Module {
  Net()
      : conv(register_module("conv", torch::nn::Conv2d(1, 4, 3))),
        first(register_module("first", torch::nn::Linear(4 * 8 * 8, 600))),
        second(register_module("second", torch::nn::Linear(600, 600))),
        third(register_module("third", torch::nn::Linear(600, 10))) {}

  torch::Tensor forward(const torch::Tensor& input) {
    const torch::Tensor features = torch::tanh(conv(input)).flatten(1);
    return third(torch::tanh(second(torch::tanh(first(features)))));
  }

  torch::nn::Conv2d conv;
  torch::nn::Linear first;
  torch::nn::Linear second;
  torch::nn::Linear third;
};

Batch global_batch(int step, const DriftOptions& options) {
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(step + 11));
  const torch::Tensor input =
      torch::randn({options.global_batch, 1, 10, 10}, generator, torch::dtype(torch::kFloat64));
  return {input.to(options.type), torch::randint(10, {options.global_batch}, generator)};
}

// Computes one step of this rank's part of the global batch in micro-batches.
void step(Strategy& strategy, const Batch& whole, int rank, int size, int accumulate) {
  const int64_t all = whole.size();
  const int64_t begin = all * rank / size;
  const int64_t end = all * (rank + 1) / size;
  for (int part = 0; part < accumulate; ++part) {
    const Batch share = whole.slice(begin + (end - begin) * part / accumulate,
                                    begin + (end - begin) * (part + 1) / accumulate);
    strategy.accumulate(
        loss_of<Net>(CrossEntropy()),
        share,
        {.weight = static_cast<double>(share.size() * size) / static_cast<double>(all),
         .last = part + 1 == accumulate});
  }
  strategy.step();
}

torch::Tensor flat(const torch::nn::Module& model) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& parameter : model.parameters()) {
    all.push_back(parameter.detach().flatten());
  }
  return torch::cat(all);
}

}  // namespace

Drift measure_drift(Communicator& comm, const DriftOptions& options) {
  comm::Solo solo;
  Net shared;
  Net alone;
  shared.to(options.type);
  alone.to(options.type);
  {
    // Ranks start with different weights on purpose: adopt() must synchronize them.
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{1});
    const auto from = shared.parameters();
    const auto to = alone.parameters();
    for (size_t i = 0; i < from.size(); ++i) {
      from[i].copy_(torch::randn(from[i].sizes(), generator, torch::dtype(options.type)) * 0.1);
      to[i].copy_(from[i]);
      from[i].add_(comm.rank());
    }
  }
  const OptimizerOptions rule{.name = "sgd", .lr = 0.05};
  const auto shared_sgd = make_optimizer(shared.parameters(), rule);
  const auto alone_sgd = make_optimizer(alone.parameters(), rule);
  const auto strategy = make_strategy(options.strategy, comm);
  const auto reference = make_strategy("single", solo);
  strategy->adopt(shared, *shared_sgd);
  reference->adopt(alone, *alone_sgd);

  Drift drift{.relative = 0, .identical = true};
  for (int number = 0; number < options.steps; ++number) {
    const Batch batch = global_batch(number, options);
    step(*strategy, batch, comm.rank(), comm.size(), options.accumulate);
    step(*reference, batch, 0, 1, 1);
    const torch::Tensor everyone = comm.all_gather(flat(shared));
    drift.identical = drift.identical && everyone.eq(everyone[0]).all().item<bool>();
  }
  const auto mine = shared.parameters();
  const auto wanted = alone.parameters();
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto difference = (mine[i] - wanted[i]).abs().max().item<double>();
    drift.relative = std::max(drift.relative, difference / wanted[i].abs().max().item<double>());
  }
  return drift;
}

}  // namespace lockstep
