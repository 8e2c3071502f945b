// SPDX-License-Identifier: Apache-2.0
#include "strategy/ddp.h"

#include <unordered_set>

#include "base/check.h"
#include "comm/compat.h"
#include "comm/lost_peer.h"
#include "comm/process_group.h"
#include "lockstep/error.h"
#include "strategy/apply_step.h"
#include "strategy/same_model.h"

namespace lockstep::strategy {
namespace {

class Ddp final : public Strategy {
 public:
  Ddp(Communicator& communicator, const StrategyOptions& options)
      : communicator_(communicator), options_(options) {}

  std::string_view name() const override { return "ddp"; }

  void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) override {
    require_same_model(communicator_, model);
    comm::compat::ReducerOptions reduce{
        .parameters = {},
        .names = {},
        .group = comm::process_group_over(communicator_),
        .first_bucket_bytes = options_.first_bucket_bytes,
        .bucket_bytes = options_.bucket_bytes,
        .find_unused = options_.find_unused_parameters,
    };
    std::unordered_set<const void*> seen;  // a tensor may be a parameter of two modules
    for (const auto& item : model.named_parameters()) {
      if (item.value().requires_grad() && seen.insert(item.value().unsafeGetTensorImpl()).second) {
        reduce.parameters.push_back(item.value());
        reduce.names.push_back(item.key());
      }
    }
    if (reduce.parameters.empty()) {
      throw Error(ExitCode::Usage, "cannot train: no parameter of the model wants a gradient");
    }
    std::vector<torch::Tensor> state = model.parameters();
    const std::vector<torch::Tensor> buffers = model.buffers();
    state.insert(state.end(), buffers.begin(), buffers.end());
    communicator_.broadcast(state);
    parameters_ = reduce.parameters;
    model_ = &model;
    optimizer_ = &optimizer;
    reducer_ = comm::compat::make_reducer(reduce);
  }

  // The order of calls is that of Python's DistributedDataParallel.forward.
  Loss accumulate(const LossFunction& loss, const Batch& batch, const MicroBatch& share) override {
    LOCKSTEP_CHECK(model_ != nullptr);
    if (share.last) {
      reducer_->prepare_for_forward();
    }
    reducer_->rebuild_buckets();
    if (options_.broadcast_buffers && at_start_of_step_) {
      communicator_.broadcast(model_->buffers());
    }
    at_start_of_step_ = share.last;
    Loss result = loss(*model_, batch);
    // Without this call the gradients only add up on this worker: Python's no_sync.
    if (share.last) {
      std::vector<torch::Tensor> outputs;
      if (options_.find_unused_parameters) {
        outputs.push_back(result.value);
      }
      reducer_->prepare_for_backward(outputs);
    }
    try {
      (share.weight == 1 ? result.value : result.value * share.weight).backward();
    } catch (const std::exception& fault) {
      comm::throw_if_lost_peer("the exchange of gradients", fault);
      throw;
    }
    result.value = result.value.detach();
    result.scores = result.scores.defined() ? result.scores.detach() : result.scores;
    return result;
  }

  double step(const StepOptions& options) override {
    return apply_step(*optimizer_, parameters_, options);
  }

 private:
  Communicator& communicator_;
  StrategyOptions options_;
  torch::nn::Module* model_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  std::vector<torch::Tensor> parameters_;
  std::shared_ptr<c10d::Reducer> reducer_;
  bool at_start_of_step_ = true;
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(Communicator& communicator, const StrategyOptions& options) {
  return std::make_unique<Ddp>(communicator, options);
}

}  // namespace lockstep::strategy
