// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/zero.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <fmt/format.h>
#include <optional>
#include <torch/utils.h>

#include "common/base/check.h"
#include "lockstep/error.h"
#include "lockstep/optimizer.h"
#include "training/comm/block_allocator.h"
#include "training/comm/call_record.h"
#include "training/optim/squares.h"
#include "training/strategy/shared/gradient_hooks.h"
#include "training/strategy/shared/same_model.h"
#include "training/strategy/shared/sync_batchnorm.h"
#include "training/strategy/shared/trained_parameters.h"
#include "training/strategy/shared/uneven_inputs.h"
#include "training/strategy/zero/flat_parameter.h"
#include "training/strategy/zero/optimizer.h"
#include "training/strategy/zero/parameter_cache.h"
#include "training/strategy/zero/state.h"

namespace lockstep::strategy {
namespace {

using zero::FlatParameter;
using zero::ParameterCache;
using zero::Piece;

void require_possible(const StrategyOptions& options) {
  const int stage = options.zero.stage;
  if (stage < 0 || stage > 3) {
    throw Error(ExitCode::Usage, fmt::format("unknown ZeRO stage {}", stage))
        .fact("available", "0, 1, 2, 3")
        .hint("--zero-stage 2");
  }
  if (options.compression != Compression::None) {
    throw Error(ExitCode::Usage, "-s deepspeed does not support --compression")
        .fact("requested", fmt::format("--compression {}", name_of(options.compression)))
        .hint("\"communication_data_type\": \"bf16\" in ds_config.json, or -s ddp");
  }
  if (options.uneven && stage == 3) {
    throw Error(ExitCode::Usage, "ZeRO stage 3 does not support uneven inputs")
        .fact("reason", "every worker must take part in gathering the parameters")
        .hint("--zero-stage 2, or give every worker the same number of batches");
  }
}

// ZeRO (Rajbhandari et al. 2020). With W workers, each holds of
//
//            parameters   gradients   optimizer state
//   stage 0  all          all         all                 as DDP
//   stage 1  all          all, until  1 / W
//                         the step
//   stage 2  all          1 / W       1 / W
//   stage 3  1 / W        1 / W       1 / W
//
// One step: forward and backward (stage 3 gathers parameters as they are used, ParameterCache);
// gradients are collected in the buckets of the flat parameters and reduce-scattered while backward
// continues (on_gradient); the optimizer updates the shard of this worker (step); publish() gathers
// the new parameters (stages 1 and 2).
//
// All communication goes through exchange_, so that its order is the same on all workers.
class Zero final : public Strategy {
 public:
  Zero(Communicator& communicator, const StrategyOptions& options)
      : communicator_(communicator), options_(options) {
    require_possible(options_);
  }

  std::string_view name() const override { return "deepspeed"; }

  void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) override {
    require_same_model(communicator_, model);
    zero::require_divisible(optimizer, options_.zero);
    zero::require_fresh(optimizer);
    trained_parameters(model);  // throws if there are none
    communicator_.broadcast(whole_state(model));
    batch_norm_ = SyncBatchNorm(communicator_, options_);
    exchange_.emplace(communicator_, options_.overlap);
    uneven_inputs_.emplace(exchange_->channel(), options_);
    partition(model);
    comm::give_back();
    optimizer_.emplace(optimizer, flat_parameters_, options_.zero.stage, exchange_->channel());
    if (options_.zero.stage == 3) {
      make_cache();
    }
    hooks_.emplace(trained_, [this](size_t parameter) { on_gradient(parameter); });
    model_ = &model;
  }

  Loss accumulate(const LossFunction& loss, const Batch& batch, const MicroBatch& share) override {
    LOCKSTEP_CHECK(model_ != nullptr);
    if (at_start_of_step_) {
      uneven_inputs_->begin_step(*model_);
    }
    at_start_of_step_ = share.last;
    // Stages 0 and 1 keep whole gradients and reduce once per step. From stage 2 on a worker keeps
    // only its shard, so every micro-batch is reduced. With uneven inputs a joined worker takes
    // part once per step, so the others must not reduce more often.
    reduces_now_ = share.last || (options_.zero.stage >= 2 && !options_.uneven);
    Loss result = compute(loss, batch, share);
    rethrow();
    if (reduces_now_) {
      reduce_rest();
    }
    return result;
  }

  StepResult step(const StepOptions& requested) override {
    const CallScope scope = communicator_.enter("the optimizer step");
    await_reductions();
    const StepOptions options = options_.uneven ? agree(requested) : requested;
    const bool needs_norm = options.check_finite || options.clip_norm > 0 || options.wants_norm;
    const Sums sums = add_up(needs_norm);
    StepResult result;
    result.applied = !options.check_finite || std::isfinite(sums.squares);
    if (result.applied) {
      // Loss scale and clipping are one factor, applied to the shard just before the update.
      double factor = 1 / options.loss_scale;
      result.norm = std::sqrt(sums.squares) / options.loss_scale;
      if (options.clip_norm > 0) {
        factor *= std::min(1.0, options.clip_norm / (result.norm + 1e-6));
      }
      if (options.wants_late_norm && !needs_norm) {
        result.late_norm = find_late_norm(options.loss_scale);
      }
      update(sums, factor);
    }
    for (FlatParameter& flat : flat_parameters_) {
      flat.drop_gradient();
    }
    std::fill(has_gradient_.begin(), has_gradient_.end(), false);
    if (result.applied) {
      publish();
    }
    return result;
  }

  int join() override {
    LOCKSTEP_CHECK(model_ != nullptr && at_start_of_step_);
    // Only buffers need to be copied: the shards of parameters and optimizer state are up to date
    // on every worker.
    const int last = uneven_inputs_->shadow_others(*model_, [this] {
      begin_pass();
      reduce_rest();
      step(StepOptions{});  // agree() replaces the options
    });
    exchange_->channel().broadcast(model_->buffers(), last);
    return last;
  }

  std::optional<std::vector<TensorPiece>> updated() const override {
    std::vector<TensorPiece> all;
    for (const FlatParameter& flat : flat_parameters_) {
      for (const Piece& piece : flat.pieces()) {
        const zero::Member& member = flat.plan().members[piece.member];
        all.push_back({.name = member.name,
                       .shape = member.parameter.sizes().vec(),
                       .offset = piece.offset,
                       .values = piece.value});
      }
    }
    return all;
  }

  std::optional<std::vector<TensorPiece>> pieces() const override {
    return zero::collect_state({*model_, optimizer_->get(), flat_parameters_},
                               communicator_.rank());
  }

  void restore(const PieceSource& source) override {
    zero::restore_state({*model_, optimizer_->get(), flat_parameters_}, source);
    publish();
  }

  void publish() override {
    const CallScope scope = communicator_.enter("the gathering of updated parameters");
    for (FlatParameter& flat : flat_parameters_) {
      flat.publish(exchange_->channel());
    }
  }

  void leave() override {
    const CallScope scope = communicator_.enter("giving the model back");
    hooks_.reset();
    cache_.reset();
    for (FlatParameter& flat : flat_parameters_) {
      flat.leave(exchange_->channel());
    }
    optimizer_->leave();
  }

  bool shares_use() const override { return cache_.has_value(); }

  std::shared_ptr<void> use_model() override {
    return cache_ ? cache_->enter(ParameterCache::Use::Reading) : nullptr;
  }

 private:
  struct ParameterLocation {
    size_t index;  // in flat_parameters_
    size_t member;
  };

  // Results of the all-reduce at the end of a step.
  struct Sums {
    std::vector<bool> has_gradient;  // by trained parameter: any worker has a gradient
    double squares = 0;              // sum of squares of the unscaled gradient, if needed
  };

  void partition(const torch::nn::Module& model) {
    for (zero::FlatParameterPlan& plan : zero::plan_flat_parameters(model, options_.zero)) {
      flat_parameters_.emplace_back(
          std::move(plan), options_.zero, communicator_.rank(), communicator_.size());
      const FlatParameter& flat = flat_parameters_.back();
      for (size_t i = 0; flat.plan().trained && i < flat.plan().members.size(); ++i) {
        locations_.push_back({.index = flat_parameters_.size() - 1, .member = i});
        trained_.push_back(flat.plan().members[i].parameter);
      }
    }
    has_gradient_.assign(trained_.size(), false);
    reductions_.resize(flat_parameters_.size());
    is_reduced_.assign(flat_parameters_.size(), false);
  }

  void make_cache() {
    std::vector<FlatParameter*> partitioned;
    for (FlatParameter& flat : flat_parameters_) {
      if (!flat.plan().stays_whole) {
        partitioned.push_back(&flat);
      }
    }
    cache_.emplace(
        std::move(partitioned), *exchange_, options_.zero, options_.find_unused_parameters, fault_);
  }

  void begin_pass() {
    next_ = 0;
    std::fill(is_reduced_.begin(), is_reduced_.end(), false);
    for (FlatParameter& flat : flat_parameters_) {
      flat.begin_pass();
    }
  }

  Loss compute(const LossFunction& loss, const Batch& batch, const MicroBatch& share) {
    begin_pass();
    const SyncBatchNorm::Scope norm = batch_norm_.enter();
    const auto cache = cache_ ? cache_->enter(ParameterCache::Use::Training) : nullptr;
    Loss result = loss(*model_, batch);
    // Gradients are summed over the workers, so the weight is the share of the global batch.
    (result.value * (share.weight / communicator_.size())).backward();
    result.value = result.value.detach();
    result.scores = result.scores.defined() ? result.scores.detach() : result.scores;
    return result;
  }

  // Called by a hook of autograd, which must not throw; the first exception is kept in fault_.
  //
  // The previous reduction of the flat parameter must be complete: it reads the bucket on the
  // thread of the exchange, and take_gradient() would write into it.
  void on_gradient(size_t parameter) {
    if (fault_ != nullptr) {
      return;
    }
    try {
      const ParameterLocation& location = locations_[parameter];
      await(location.index);
      flat_parameters_[location.index].take_gradient(location.member);
      has_gradient_[parameter] = true;
      if (reduces_now_) {
        reduce_ready(location.index);
      }
    } catch (...) {
      fault_ = std::current_exception();
    }
  }

  // The order of reductions must be equal on all workers. In stages 0 to 2, flat parameters are
  // reduced in the order of the list, independent of the graphs of the workers: a flat
  // parameter that is complete early waits for its predecessors. At stage 3, workers must use the
  // same parameters in the same order anyway unless find_unused_parameters is set, so flat
  // parameters are reduced as soon as they are complete; waiting would keep more buckets in memory.
  void reduce_ready(size_t index) {
    if (options_.zero.stage == 3 && !options_.find_unused_parameters) {
      if (flat_parameters_[index].has_all_gradients() && !is_reduced_[index]) {
        reduce(index);
      }
      return;
    }
    while (next_ < flat_parameters_.size() && (flat_parameters_[next_].has_all_gradients() ||
                                               !flat_parameters_[next_].plan().trained)) {
      if (flat_parameters_[next_].plan().trained) {
        reduce(next_);
      }
      ++next_;
    }
  }

  // Parameters without a gradient in this pass keep their flat parameter from being complete. It is
  // reduced here, on every worker, whether it has gradients or not.
  void reduce_rest() {
    for (size_t index = 0; index < flat_parameters_.size(); ++index) {
      if (!is_reduced_[index] && flat_parameters_[index].plan().trained) {
        await(index);
        reduce(index);
      }
    }
  }

  void reduce(size_t index) {
    is_reduced_[index] = true;
    reductions_[index] =
        exchange_->start([&reduced = flat_parameters_[index]](Communicator& channel) {
          const CallScope scope = channel.enter("the exchange of gradients");
          reduced.reduce(channel);
          return torch::Tensor();
        });
  }

  void await(size_t index) {
    if (reductions_[index] == nullptr) {
      return;
    }
    const Exchange::Future future = std::exchange(reductions_[index], Exchange::Future());
    exchange_->wait(future);
    if (future->hasError()) {
      std::rethrow_exception(future->exception_ptr());
    }
  }

  void await_reductions() {
    for (size_t index = 0; index < flat_parameters_.size(); ++index) {
      await(index);
    }
  }

  void rethrow() {
    if (fault_ != nullptr) {
      std::rethrow_exception(std::exchange(fault_, nullptr));
    }
  }

  // Options and learning rates of this step, from the first worker that still trains. A worker that
  // has joined does not know them.
  StepOptions agree(const StepOptions& requested) {
    std::vector<double> values = learning_rates(optimizer_->get());
    values.insert(values.end(),
                  {requested.clip_norm,
                   requested.loss_scale,
                   requested.check_finite ? 1.0 : 0.0,
                   requested.wants_norm ? 1.0 : 0.0,
                   requested.wants_late_norm ? 1.0 : 0.0});
    torch::Tensor all = torch::tensor(values, torch::kFloat64);
    exchange_->channel().broadcast(all, uneven_inputs_->first_active_rank());
    values.assign(all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
    const std::vector<double> step(values.end() - 5, values.end());
    values.resize(values.size() - 5);
    set_learning_rates(optimizer_->get(), values);
    return {.clip_norm = step[0],
            .loss_scale = step[1],
            .check_finite = step[2] != 0,
            .wants_norm = step[3] != 0,
            .wants_late_norm = step[4] != 0};
  }

  // The part of the gradient that this worker is responsible for. The parts of all workers cover
  // every element once.
  std::vector<torch::Tensor> own_gradients() const {
    std::vector<torch::Tensor> gradients;
    for (const FlatParameter& flat : flat_parameters_) {
      if (!flat.gradient().defined()) {
        continue;
      }
      const zero::Span own = options_.zero.stage == 0 ? shard_of(flat) : zero::Span{};
      gradients.push_back(options_.zero.stage == 0
                              ? flat.gradient().narrow(0, own.begin, own.size())
                              : flat.gradient());
    }
    return gradients;
  }

  double squares_of_own() const {
    double squares = 0;
    for (const torch::Tensor& gradient : own_gradients()) {
      squares += optim::sum_of_squares(gradient);
    }
    return squares;
  }

  // Undefined unless messages go from GPU to GPU. Also called on workers without gradients, because
  // it contains a collective.
  torch::Tensor find_late_norm(double loss_scale) {
    if (!communicator_.device()) {
      return {};
    }
    const torch::NoGradGuard no_grad;
    torch::Tensor squares =
        torch::zeros({1}, torch::dtype(torch::kFloat64).device(*communicator_.device()));
    for (const torch::Tensor& gradient : own_gradients()) {
      squares += optim::sum_of_squares_tensor(gradient);
    }
    exchange_->channel().all_reduce(squares);
    return squares.sqrt().div_(loss_scale);
  }

  zero::Span shard_of(const FlatParameter& flat) const {
    return zero::shard_of(flat.plan().elements, communicator_.size(), communicator_.rank());
  }

  Sums add_up(bool needs_norm) {
    // A worker may get a gradient after its flat parameter was reduced, for example with recomputed
    // activations. Such flat parameters are reduced again, on all workers.
    std::vector<double> mine(has_gradient_.begin(), has_gradient_.end());
    mine.reserve(mine.size() + flat_parameters_.size() + 1);
    for (const FlatParameter& flat : flat_parameters_) {
      mine.push_back(flat.has_gradients() ? 1 : 0);
    }
    mine.push_back(needs_norm ? squares_of_own() : 0);
    torch::Tensor all = torch::tensor(mine, torch::kFloat64);
    exchange_->channel().all_reduce(all);
    const auto values = all.accessor<double, 1>();
    Sums sums;
    for (size_t i = 0; i < trained_.size(); ++i) {
      sums.has_gradient.push_back(values[static_cast<int64_t>(i)] > 0);
    }
    sums.squares = values[all.numel() - 1];
    bool is_late = false;
    for (size_t i = 0; i < flat_parameters_.size(); ++i) {
      if (values[static_cast<int64_t>(trained_.size() + i)] > 0) {
        is_late = true;
        flat_parameters_[i].reduce(exchange_->channel());
      }
    }
    if (is_late && needs_norm) {
      torch::Tensor squares = torch::full({1}, squares_of_own(), torch::kFloat64);
      exchange_->channel().all_reduce(squares);
      sums.squares = squares.item<double>();
    }
    return sums;
  }

  // Parameters without a gradient on any worker are not updated.
  void update(const Sums& sums, double factor) {
    size_t parameter = 0;
    std::vector<torch::Tensor> given;
    for (const FlatParameter& flat : flat_parameters_) {
      if (flat.gradient().defined() && factor != 1) {
        torch::NoGradGuard no_grad;
        torch::Tensor(flat.gradient()).mul_(factor);
      }
      for (const Piece& piece : flat.pieces()) {
        if (sums.has_gradient[parameter + piece.member] && flat.gradient().defined()) {
          piece.value.mutable_grad() = flat.gradient_of(piece);
          given.push_back(piece.value);
        }
      }
      parameter += flat.plan().trained ? flat.plan().members.size() : 0;
    }
    optimizer_->get().step();
    for (const torch::Tensor& piece : given) {
      piece.mutable_grad() = torch::Tensor();
    }
  }

  Communicator& communicator_;
  StrategyOptions options_;
  torch::nn::Module* model_ = nullptr;
  std::optional<zero::PieceOptimizer> optimizer_;
  SyncBatchNorm batch_norm_;
  std::optional<UnevenInputs> uneven_inputs_;

  std::deque<FlatParameter> flat_parameters_;  // a deque keeps references to elements valid
  std::vector<torch::Tensor> trained_;         // in the order of flat_parameters_
  std::vector<ParameterLocation> locations_;   // of each trained parameter
  std::vector<bool> has_gradient_;             // by trained parameter, in the current step
  std::exception_ptr fault_;                   // first exception of a hook or of gathering

  std::optional<Exchange> exchange_;
  std::vector<Exchange::Future> reductions_;  // in progress, by flat parameter
  std::vector<bool> is_reduced_;              // by flat parameter, in the current pass
  size_t next_ = 0;                           // next flat parameter to reduce, in stages 0 to 2
  bool reduces_now_ = false;
  bool at_start_of_step_ = true;
  std::optional<ParameterCache> cache_;
  std::optional<GradientHooks> hooks_;
};

}  // namespace

std::unique_ptr<Strategy> make_zero(Communicator& communicator, const StrategyOptions& options) {
  return std::make_unique<Zero>(communicator, options);
}

}  // namespace lockstep::strategy
