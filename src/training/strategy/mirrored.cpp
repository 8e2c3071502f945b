// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/mirrored.h"

#include <optional>

#include "common/base/check.h"
#include "lockstep/error.h"
#include "training/strategy/shared/apply_step.h"
#include "training/strategy/shared/gradient_buckets.h"
#include "training/strategy/shared/same_model.h"
#include "training/strategy/shared/share_state.h"
#include "training/strategy/shared/sync_batchnorm.h"
#include "training/strategy/shared/trained_parameters.h"
#include "training/strategy/shared/uneven_inputs.h"

namespace lockstep::strategy {
namespace {

class Mirrored final : public Strategy {
 public:
  Mirrored(Communicator& communicator, const StrategyOptions& options)
      : communicator_(communicator), options_(options), uneven_inputs_(communicator, options) {
    if (options_.compression == Compression::PowerSgd) {
      throw Error(ExitCode::Usage, "-s mirrored does not support PowerSGD")
          .fact("requested", "--compression powersgd", "command line")
          .fact("available", "none, fp16, bf16")
          .hint("--compression bf16, or -s ddp");
    }
  }

  std::string_view name() const override { return "mirrored"; }

  void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) override {
    require_same_model(communicator_, model);
    parameters_ = trained_parameters(model).tensors;
    communicator_.broadcast(whole_state(model));
    buckets_.emplace(parameters_, options_.bucket_bytes, options_.compression);
    batch_norm_ = SyncBatchNorm(communicator_, options_);
    model_ = &model;
    optimizer_ = &optimizer;
  }

  Loss accumulate(const LossFunction& loss, const Batch& batch, const MicroBatch& share) override {
    LOCKSTEP_CHECK(model_ != nullptr);
    if (at_start_of_step_) {
      uneven_inputs_.begin_step(*model_);
    }
    at_start_of_step_ = share.last;
    const SyncBatchNorm::Scope scope = batch_norm_.enter();
    Loss result = loss(*model_, batch);
    // share.weight is for an average over the workers. Gradients are summed here, so the weight is
    // the share of the global batch.
    (result.value * (share.weight / communicator_.size())).backward();
    result.value = result.value.detach();
    result.scores = result.scores.defined() ? result.scores.detach() : result.scores;
    return result;
  }

  StepResult step(const StepOptions& options) override {
    sum_gradients();
    return apply_step(*optimizer_, parameters_, options);
  }

  int join() override {
    LOCKSTEP_CHECK(model_ != nullptr && at_start_of_step_);
    return uneven_inputs_.join(*model_, *optimizer_, [this] {
      sum_gradients();
      drop_gradients(parameters_);
    });
  }

 private:
  void sum_gradients() {
    const CallScope scope = communicator_.enter("the exchange of gradients");
    if (communicator_.size() > 1) {
      buckets_->sum(communicator_);
    }
  }

  Communicator& communicator_;
  StrategyOptions options_;
  UnevenInputs uneven_inputs_;
  std::optional<GradientBuckets> buckets_;
  SyncBatchNorm batch_norm_;
  torch::nn::Module* model_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  std::vector<torch::Tensor> parameters_;
  bool at_start_of_step_ = true;
};

}  // namespace

std::unique_ptr<Strategy> make_mirrored(Communicator& communicator,
                                        const StrategyOptions& options) {
  return std::make_unique<Mirrored>(communicator, options);
}

}  // namespace lockstep::strategy
