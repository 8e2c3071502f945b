// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/ddp/comm_hook.h"

#include <functional>
#include <torch/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <utility>

#include "training/strategy/ddp/powersgd.h"
#include "training/strategy/shared/compression.h"

namespace lockstep::strategy {
namespace {

// Replaces a bucket by its average over all workers. The list contains the parameters of the
// bucket.
using Average =
    std::function<void(Communicator&, torch::Tensor&, const std::vector<torch::Tensor>&)>;

// With a hook, the reducer does not divide. Without one, it multiplies by 1 / workers, and so does
// this function, so that results are equal to the bit.
void average_whole(Communicator& communicator,
                   torch::Tensor& gradients,
                   const std::vector<torch::Tensor>& /*parameters*/) {
  gradients.mul_(1.0 / communicator.size());
  communicator.all_reduce(gradients);
}

// Divided before the cast: the sum is then not larger than the largest gradient and cannot overflow
// if no gradient does.
Average average_as(torch::ScalarType type) {
  return [type](Communicator& communicator,
                torch::Tensor& gradients,
                const std::vector<torch::Tensor>& /*parameters*/) {
    torch::Tensor small = gradients.mul_(1.0 / communicator.size()).to(type);
    communicator.all_reduce(small);
    gradients.copy_(small);
  };
}

Average average_for(const StrategyOptions& options, const std::vector<torch::Tensor>& parameters) {
  if (const auto type = wire_type(options.compression)) {
    return average_as(*type);
  }
  if (options.compression == Compression::PowerSgd) {
    return [sgd = std::make_shared<PowerSgd>(parameters, options.powersgd_rank)](
               Communicator& communicator,
               torch::Tensor& gradients,
               const std::vector<torch::Tensor>& in_bucket) {
      sgd->average(communicator, gradients, in_bucket);
    };
  }
  return average_whole;
}

// CppCommHookInterface would suffice, but libtorch 1.13 does not export a symbol that it needs.
class Hook final : public c10d::CommHookInterface {
 public:
  Hook(Exchange& exchange, Average average, const int64_t& step, int64_t whole_steps)
      : exchange_(exchange), average_(std::move(average)), step_(step), whole_steps_(whole_steps) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    if (exchange_.held() && !exchange_.has_waiting()) {
      // The reducer waits for the buckets in a callback that it queues with the last one. This
      // callback is queued earlier and therefore runs first.
      torch::autograd::Engine::get_default_engine().queue_callback(
          [&exchange = exchange_] { exchange.release(); });
    }
    return exchange_.start([average = step_ < whole_steps_ ? Average(average_whole) : average_,
                            gradients = bucket.getBuffer(),
                            parameters = bucket.getParameters()](Communicator& communicator) {
      torch::Tensor result = gradients;
      average(communicator, result, parameters);
      return result;
    });
  }

  torch::Tensor parseHookResult(const c10::IValue& result) override { return result.toTensor(); }

 private:
  Exchange& exchange_;
  Average average_;
  const int64_t& step_;
  int64_t whole_steps_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> make_comm_hook(
    Exchange& exchange,
    const StrategyOptions& options,
    const int64_t& step,
    const std::vector<torch::Tensor>& parameters) {
  return std::make_unique<Hook>(
      exchange,
      average_for(options, parameters),
      step,
      options.compression == Compression::PowerSgd ? options.powersgd_start : 0);
}

}  // namespace lockstep::strategy
