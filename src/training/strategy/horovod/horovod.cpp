// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/horovod.h"

#include <fmt/format.h>
#include <mutex>
#include <torch/utils.h>

#include "common/base/check.h"
#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/strategy/horovod/engine.h"
#include "training/strategy/horovod/options.h"
#include "training/strategy/shared/apply_step.h"
#include "training/strategy/shared/compression.h"
#include "training/strategy/shared/gradient_hooks.h"
#include "training/strategy/shared/same_model.h"
#include "training/strategy/shared/share_state.h"
#include "training/strategy/shared/sync_batchnorm.h"
#include "training/strategy/shared/trained_parameters.h"

namespace lockstep::strategy {
namespace {

using horovod::Announcement;
using horovod::Engine;
using horovod::Operation;

Operation operation_of(const StrategyOptions& options, int workers) {
  Operation operation{.wire =
                          wire_type(options.compression).value_or(torch::ScalarType::Undefined)};
  if (options.horovod.reduction == "adasum") {
    operation.kind = Operation::Kind::Adasum;
  } else if (options.horovod.reduction == "average") {
    // The division by the number of workers is split: 1 / f before the sum and f / workers after
    // it. A large f avoids overflow of 16-bit sums, a small one underflow of the terms.
    operation.before = 1 / options.horovod.predivide_factor;
    operation.after = options.horovod.predivide_factor / workers;
  }
  return operation;
}

class Horovod final : public Strategy {
 public:
  Horovod(Communicator& communicator, const StrategyOptions& options)
      : communicator_(communicator),
        options_(options),
        operation_(operation_of(options, communicator.size())) {}

  std::string_view name() const override { return "horovod"; }

  void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) override {
    require_same_model(communicator_, model);
    TrainedParameters trained = trained_parameters(model);
    share_state(communicator_, model, optimizer);
    parameters_ = std::move(trained.tensors);
    names_ = std::move(trained.names);
    state_.assign(parameters_.size(), State::Silent);
    substitutes_.assign(parameters_.size(), torch::Tensor());
    batch_norm_ = SyncBatchNorm(communicator_, options_);
    model_ = &model;
    optimizer_ = &optimizer;
    // The hooks first, because they use the engine. The engine has a communicator of its own,
    // because collectives of two threads would otherwise interleave differently on each worker.
    hooks_.reset();
    engine_.reset();
    engine_ =
        std::make_unique<Engine>(communicator_.subset(communicator_.size()), options_.horovod);
    if (announces_in_backward()) {
      hooks_ = std::make_unique<GradientHooks>(
          parameters_, [this](size_t parameter) { on_gradient(parameter); });
    }
  }

  Loss accumulate(const LossFunction& loss, const Batch& batch, const MicroBatch& share) override {
    LOCKSTEP_CHECK(model_ != nullptr);
    if (options_.broadcast_buffers && at_start_of_step_) {
      follow_buffers();
    }
    at_start_of_step_ = share.last;
    const SyncBatchNorm::Scope scope = batch_norm_.enter();
    Loss result = loss(*model_, batch);
    {
      const std::lock_guard lock(mutex_);
      // Only the last micro-batch completes the gradients, so hooks of earlier ones announce
      // nothing.
      is_armed_ = share.last && announces_in_backward();
    }
    (share.weight == 1 ? result.value : result.value * share.weight).backward();
    {
      const std::lock_guard lock(mutex_);
      is_armed_ = false;
      if (fault_ != nullptr) {
        std::rethrow_exception(std::exchange(fault_, nullptr));
      }
    }
    result.value = result.value.detach();
    result.scores = result.scores.defined() ? result.scores.detach() : result.scores;
    return result;
  }

  StepResult step(const StepOptions& options) override {
    LOCKSTEP_CHECK(engine_ != nullptr);
    StepResult result;
    if (operation_.kind == Operation::Kind::Adasum) {
      result = adasum_step(options);
    } else {
      exchange_gradients();
      result = apply_step(*optimizer_, parameters_, options);
    }
    engine_->end_step();
    return result;
  }

  int join() override {
    LOCKSTEP_CHECK(engine_ != nullptr);
    if (options_.broadcast_buffers && !options_.uneven && !model_->buffers().empty()) {
      throw Error(ExitCode::Usage,
                  "cannot join: the model has buffers that rank 0 broadcasts in every step")
          .fact("first buffer", model_->named_buffers().begin()->key())
          .hint("StrategyOptions::uneven = true, or broadcast_buffers = false");
    }
    const int last = engine_->join();
    share_state(communicator_, *model_, *optimizer_, last);
    at_start_of_step_ = true;
    return last;
  }

 private:
  // State of a parameter in the current step.
  enum class State { Silent, Announced, Substituted };

  // Adasum reduces the update of the optimizer, which does not exist before the step.
  bool announces_in_backward() const {
    return options_.overlap && operation_.kind != Operation::Kind::Adasum;
  }

  // Called on a thread of autograd.
  void on_gradient(size_t parameter) {
    const std::lock_guard lock(mutex_);
    if (!is_armed_ || fault_ != nullptr) {
      return;
    }
    try {
      if (state_[parameter] != State::Silent) {
        throw Error(ExitCode::Usage,
                    fmt::format("the gradient of '{}' became ready twice in one backward pass",
                                names_[parameter]))
            .fact("reason", "backward adds to it in two places, for example with --recompute")
            .hint("--no-overlap");
      }
      engine_->announce({announcement_of(parameter)});
    } catch (...) {
      fault_ = std::current_exception();
    }
  }

  Announcement announcement_of(size_t parameter) {
    const torch::Tensor gradient = parameters_[parameter].grad();
    if (gradient.defined()) {
      if (gradient.is_sparse()) {
        throw Error(ExitCode::Usage,
                    fmt::format("-s horovod does not support the sparse gradient of '{}'",
                                names_[parameter]))
            .hint("EmbeddingOptions().sparse(false)");
      }
      state_[parameter] = State::Announced;
      return {.name = names_[parameter], .value = gradient, .operation = operation_};
    }
    state_[parameter] = State::Substituted;
    substitutes_[parameter] = torch::zeros_like(parameters_[parameter].detach());
    return {.name = names_[parameter],
            .value = substitutes_[parameter],
            .operation = operation_,
            .empty = true};
  }

  void exchange_gradients() {
    // Every worker announces every parameter in every step: the coordinator waits until all have.
    std::vector<Announcement> rest;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (state_[i] == State::Silent) {
        rest.push_back(announcement_of(i));
      }
    }
    engine_->announce(std::move(rest));
    // Parameters that some other worker has used get the sum; those that no worker has used stay
    // without a gradient, and the optimizer skips them, as in one process.
    const std::set<std::string> nowhere = await_engine();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (state_[i] == State::Substituted && !nowhere.contains(names_[i])) {
        parameters_[i].mutable_grad() = substitutes_[i];
      }
      substitutes_[i] = torch::Tensor();
      state_[i] = State::Silent;
    }
  }

  std::set<std::string> await_engine() {
    const comm::Waiting waiting(CommunicatorAccess::calls(communicator_));
    return engine_->wait();
  }

  // Each worker makes a step with its own gradient; the resulting updates are combined.
  StepResult adasum_step(const StepOptions& options) {
    // apply_step() checks only the gradients of this worker and would skip the step on this worker
    // alone.
    if ((options.check_finite || options.loss_scale != 1) && !gradients_are_finite()) {
      drop_gradients(parameters_);
      return {.norm = 0, .applied = false};
    }
    const torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> before;
    std::vector<bool> has_gradient;
    for (const torch::Tensor& parameter : parameters_) {
      before.push_back(parameter.detach().clone());
      has_gradient.push_back(parameter.grad().defined());
    }
    StepResult result = apply_step(*optimizer_, parameters_, options);
    result.late_norm = torch::Tensor();  // the norm of this worker only
    std::vector<Announcement> deltas;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      deltas.push_back({.name = names_[i],
                        .value = parameters_[i].detach() - before[i],
                        .operation = operation_,
                        .empty = !has_gradient[i]});
    }
    engine_->announce(deltas);
    await_engine();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].detach().copy_(before[i] + deltas[i].value);
    }
    if (options.clip_norm > 0 || options.wants_norm) {
      // Each worker has clipped its own gradient; the largest norm is reported.
      torch::Tensor norm = torch::full({1}, result.norm, torch::dtype(torch::kFloat64));
      communicator_.all_reduce(norm, Reduction::Max);
      result.norm = norm.item<double>();
    }
    return result;
  }

  // Checks all workers, so that all skip the same steps.
  bool gradients_are_finite() {
    bool is_finite = true;
    for (const torch::Tensor& parameter : parameters_) {
      is_finite = is_finite &&
                  (!parameter.grad().defined() || parameter.grad().isfinite().all().item<bool>());
    }
    torch::Tensor flag = torch::full({1}, is_finite ? 1 : 0, torch::dtype(torch::kInt64));
    communicator_.all_reduce(flag, Reduction::Min);
    return flag.item<int64_t>() == 1;
  }

  // Copies the buffers of rank 0. With uneven inputs, workers may have joined and not call
  // broadcast, so the engine transports the buffers: all ranks except 0 contribute nothing to a
  // sum. After rank 0 has joined, each worker keeps its own buffers.
  void follow_buffers() {
    if (!options_.uneven) {
      communicator_.broadcast(model_->buffers());
      return;
    }
    std::vector<Announcement> buffers;
    for (const auto& item : model_->named_buffers()) {
      const bool is_mine = communicator_.rank() == 0;
      buffers.push_back({.name = "buffer " + item.key(),
                         .value = is_mine ? item.value() : torch::zeros_like(item.value()),
                         .empty = !is_mine});
    }
    if (buffers.empty()) {
      return;
    }
    engine_->announce(buffers);
    const std::set<std::string> nowhere = await_engine();
    if (communicator_.rank() != 0) {
      const torch::NoGradGuard no_grad;
      size_t i = 0;
      for (const auto& item : model_->named_buffers()) {
        if (!nowhere.contains(buffers[i].name)) {
          item.value().copy_(buffers[i].value);
        }
        ++i;
      }
    }
  }

  Communicator& communicator_;
  StrategyOptions options_;
  Operation operation_;
  SyncBatchNorm batch_norm_;
  torch::nn::Module* model_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  std::vector<torch::Tensor> parameters_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> substitutes_;  // zeros for parameters without a gradient
  bool at_start_of_step_ = true;

  std::mutex mutex_;  // protects the fields below from autograd
  std::vector<State> state_;
  bool is_armed_ = false;
  std::exception_ptr fault_;

  // Destroyed in reverse order: the hooks first, because they call the engine.
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<GradientHooks> hooks_;
};

}  // namespace

std::unique_ptr<Strategy> make_horovod(Communicator& communicator, const StrategyOptions& options) {
  horovod::require_sense(options, communicator.size());
  return std::make_unique<Horovod>(communicator, options);
}

}  // namespace lockstep::strategy
