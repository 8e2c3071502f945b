// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/single.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "lockstep/error.h"
#include "training/strategy/shared/apply_step.h"
#include "training/strategy/shared/trained_parameters.h"

namespace lockstep::strategy {
namespace {

class Single final : public Strategy {
 public:
  std::string_view name() const override { return "single"; }

  void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) override {
    model_ = &model;
    optimizer_ = &optimizer;
    // A tensor that two modules share counts once, also in gradient clipping.
    parameters_ = trained_parameters(model).tensors;
  }

  Loss accumulate(const LossFunction& loss, const Batch& batch, const MicroBatch& share) override {
    LOCKSTEP_CHECK(model_ != nullptr);
    Loss result = loss(*model_, batch);
    (share.weight == 1 ? result.value : result.value * share.weight).backward();
    result.value = result.value.detach();
    result.scores = result.scores.defined() ? result.scores.detach() : result.scores;
    return result;
  }

  StepResult step(const StepOptions& options) override {
    return apply_step(*optimizer_, parameters_, options);
  }

  int join() override { return 0; }

 private:
  torch::nn::Module* model_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace

std::unique_ptr<Strategy> make_single(Communicator& communicator) {
  if (communicator.size() != 1) {
    throw Error(ExitCode::Usage,
                fmt::format("-s single supports one worker, not {}", communicator.size()))
        .fact("requested", "-s single", "command line")
        .fact("workers", std::to_string(communicator.size()), communicator.kind())
        .hint("-s ddp, or start one worker");
  }
  return std::make_unique<Single>();
}

}  // namespace lockstep::strategy
