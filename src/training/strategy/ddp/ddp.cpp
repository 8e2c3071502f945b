// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/ddp/ddp.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include <torch/csrc/distributed/c10d/logger.hpp>

#include "common/base/check.h"
#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/comm/compat.h"
#include "training/comm/lost_peer.h"
#include "training/comm/process_group.h"
#include "training/strategy/ddp/comm_hook.h"
#include "training/strategy/ddp/loss_wrapper.h"
#include "training/strategy/shared/apply_step.h"
#include "training/strategy/shared/exchange.h"
#include "training/strategy/shared/same_model.h"
#include "training/strategy/shared/share_state.h"
#include "training/strategy/shared/sync_batchnorm.h"
#include "training/strategy/shared/trained_parameters.h"
#include "training/strategy/shared/uneven_inputs.h"

namespace lockstep::strategy {
namespace {

// "'a', 'b' and 3 more"
std::string quote_some(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 6;
  std::vector<std::string> quoted;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    quoted.push_back(fmt::format("'{}'", names[i]));
  }
  const std::string more =
      names.size() > kMaxNames ? fmt::format(" and {} more", names.size() - kMaxNames) : "";
  return lockstep::join(quoted, ", ") + more;
}

class Ddp final : public Strategy {
 public:
  Ddp(Communicator& communicator, const StrategyOptions& options)
      : communicator_(communicator), options_(options), uneven_inputs_(communicator, options) {}

  std::string_view name() const override { return "ddp"; }

  void adopt(torch::nn::Module& model, torch::optim::Optimizer& optimizer) override {
    require_same_model(communicator_, model);
    trained_ = trained_parameters(model);
    communicator_.broadcast(whole_state(model));
    batch_norm_ = SyncBatchNorm(communicator_, options_);
    model_ = &model;
    optimizer_ = &optimizer;
    // A hook is needed only for compression and for delayed exchange; otherwise the reducer
    // communicates itself.
    const bool hooked = options_.compression != Compression::None || !options_.overlap;
    if (hooked) {
      exchange_ = std::make_unique<Exchange>(communicator_, options_.overlap);
    }
    reducer_ = comm::compat::make_reducer({
        // Gradients become ready roughly in the reverse order of the parameters.
        .parameters = {trained_.tensors.rbegin(), trained_.tensors.rend()},
        .names = {trained_.names.rbegin(), trained_.names.rend()},
        .group = comm::process_group_over(hooked ? exchange_->channel() : communicator_),
        .first_bucket_bytes = options_.first_bucket_bytes,
        .bucket_bytes = options_.bucket_bytes,
        .find_unused = options_.find_unused_parameters,
    });
    if (hooked) {
      reducer_->register_comm_hook(
          make_comm_hook(*exchange_, options_, exchanges_, trained_.tensors));
    }
    if (options_.static_graph) {
      reducer_->set_static_graph();
    }
    // Without these calls the reducer would rebuild its buckets after the first step, in the order
    // in which gradients became ready. A resumed run would then add up its first step in another
    // order than the original run.
    reducer_->push_rebuilt_params_for_all_indices();
    reducer_->rebuild_buckets();
    // The reducer uses its logger without a null check when the set of unused parameters changes.
    logger_ = std::make_shared<c10d::Logger>(reducer_);
    reducer_->set_logger(logger_);
  }

  Loss accumulate(const LossFunction& loss, const Batch& batch, const MicroBatch& share) override {
    LOCKSTEP_CHECK(model_ != nullptr);
    if (at_start_of_step_) {
      uneven_inputs_.begin_step(*model_);
    }
    const SyncBatchNorm::Scope scope = batch_norm_.enter();
    Loss result = loss(*model_, batch);
    torch::Tensor weighted = share.weight == 1 ? result.value : result.value * share.weight;
    if (first_shares_.defined()) {
      weighted = weighted + first_shares_;
      first_shares_ = torch::Tensor();
    }
    if (!share.last && options_.static_graph && exchanges_ == 0) {
      // The first backward must be the one with the exchange: libtorch 2.x also counts the others
      // when it learns the graph. So the losses are added and backward runs once.
      first_shares_ = weighted;
    } else if (share.last) {
      // A gradient that only an earlier micro-batch produced must be exchanged too.
      exchange_gradients(weighted,
                         at_start_of_step_ ? std::vector<torch::Tensor>() : with_gradient());
    } else {
      weighted.backward();
    }
    at_start_of_step_ = share.last;
    result.value = result.value.detach();
    result.scores = result.scores.defined() ? result.scores.detach() : result.scores;
    return result;
  }

  StepResult step(const StepOptions& options) override {
    return apply_step(*optimizer_, trained_.tensors, options);
  }

  int join() override {
    LOCKSTEP_CHECK(model_ != nullptr && at_start_of_step_);
    return uneven_inputs_.join(*model_, *optimizer_, [this] {
      // A loss that reaches every parameter but produces no gradient.
      const torch::Tensor nothing =
          torch::zeros({}, trained_.tensors.front().options()).requires_grad_();
      exchange_gradients(nothing, trained_.tensors);
      drop_gradients(trained_.tensors);
    });
  }

 private:
  // Backward of the last micro-batch of a step, with exchange of gradients. The order of calls is
  // that of DistributedDataParallel in Python. Backward without these calls only accumulates
  // gradients on this worker (no_sync in Python).
  void exchange_gradients(torch::Tensor loss, const std::vector<torch::Tensor>& reached) {
    // In its first step a static graph only counts uses; everything is exchanged after backward.
    const bool counts = options_.static_graph && exchanges_ == 0;
    if (counts || !reached.empty()) {
      loss = wrap_loss(loss, reached, counts ? [this] { exchange_all(); } : std::function<void()>());
    }
    reducer_->prepare_for_forward();
    std::vector<torch::Tensor> outputs;
    if (options_.find_unused_parameters && !options_.static_graph) {
      outputs.push_back(loss);
    }
    reducer_->prepare_for_backward(outputs);
    if (!options_.overlap) {
      exchange_->hold();
    }
    try {
      const CallScope scope = communicator_.enter("the exchange of gradients");
      loss.backward();
    } catch (const std::exception& fault) {
      comm::throw_if_lost_peer("the exchange of gradients", fault);
      throw_if_graph_changed(fault, false);
      throw;
    }
    ++exchanges_;
    // After the last bucket was started, nothing is left to compute.
    CommunicatorAccess::calls(communicator_).wait_since_hand_over();
    settle();
  }

  void exchange_all() {
    if (!options_.overlap) {
      exchange_->release();
    }
    reducer_->delay_all_reduce();
  }

  // rebuild_buckets() also reports whether the reducer still waits for a gradient. Python calls it
  // in the next step; here the error must appear in the step that causes it.
  void settle() {
    try {
      reducer_->rebuild_buckets();
    } catch (const std::exception& fault) {
      comm::throw_if_lost_peer("the exchange of gradients", fault);
      if (std::string_view(fault.what()).find("Expected to have finished reduction") ==
          std::string_view::npos) {
        throw;
      }
      throw_if_graph_changed(fault, true);
      const std::vector<std::string> names = unused();
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot finish the step: {} of {} parameters were not used in the loss",
                      names.size(),
                      trained_.names.size()))
          .fact("unused", quote_some(names), fmt::format("rank {}", communicator_.rank()))
          .hint("--find-unused-parameters, or requires_grad_(false) on these");
    }
    if (options_.static_graph && exchanges_ == 1) {
      first_unused_ = unused();
    }
  }

  // During backward, a missing gradient proves nothing: it may still come.
  void throw_if_graph_changed(const std::exception& fault, bool backward_is_over) const {
    if (!options_.static_graph ||
        std::string_view(fault.what()).find("graph has changed") == std::string_view::npos) {
      return;
    }
    const std::vector<std::string> now = unused();
    std::vector<std::string> changed;
    for (const std::string& each : trained_.names) {
      const bool was_used =
          std::find(first_unused_.begin(), first_unused_.end(), each) == first_unused_.end();
      const bool is_used = std::find(now.begin(), now.end(), each) == now.end();
      if (is_used ? !was_used : was_used && backward_is_over) {
        changed.push_back(each);
      }
    }
    throw Error(ExitCode::Usage, "cannot finish the step: the graph differs from the first step")
        .fact("requested", "--static-graph", "command line")
        .fact("changed", quote_some(changed), fmt::format("rank {}", communicator_.rank()))
        .hint("--find-unused-parameters instead of --static-graph");
  }

  std::vector<torch::Tensor> with_gradient() const {
    std::vector<torch::Tensor> result;
    for (const torch::Tensor& parameter : trained_.tensors) {
      if (parameter.grad().defined()) {
        result.push_back(parameter);
      }
    }
    return result;
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < trained_.tensors.size(); ++i) {
      if (!trained_.tensors[i].grad().defined()) {
        names.push_back(trained_.names[i]);
      }
    }
    return names;
  }

  Communicator& communicator_;
  StrategyOptions options_;
  UnevenInputs uneven_inputs_;
  SyncBatchNorm batch_norm_;
  torch::nn::Module* model_ = nullptr;
  torch::optim::Optimizer* optimizer_ = nullptr;
  TrainedParameters trained_;
  std::vector<std::string> first_unused_;  // of a static graph
  int64_t exchanges_ = 0;
  bool at_start_of_step_ = true;
  torch::Tensor first_shares_;  // sum of losses in the first step of a static graph
  // The reducer uses the exchange, which must therefore be destroyed after it.
  std::unique_ptr<Exchange> exchange_;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;
};

}  // namespace

std::unique_ptr<Strategy> make_ddp(Communicator& communicator, const StrategyOptions& options) {
  if (options.static_graph && options.uneven) {
    throw Error(ExitCode::Usage, "--static-graph does not support uneven inputs")
        .fact("requested", "static_graph and uneven", "StrategyOptions")
        .hint("drop --static-graph: a worker without batches has a different graph");
  }
  return std::make_unique<Ddp>(communicator, options);
}

}  // namespace lockstep::strategy
