// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/sync_batchnorm.h"

#include <ATen/ops/batch_norm_native.h>
#include <ATen/ops/batch_norm_ops.h>
#include <ATen/ops/instance_norm_native.h>
#include <ATen/ops/instance_norm_ops.h>
#include <torch/autograd.h>
#include <torch/library.h>

#include "lockstep/error.h"

namespace lockstep::strategy {

// Thread-local entry for the operator, with a communicator of its own: gradients may be exchanged
// on the main one at the same time.
class SyncBatchNorm::ProcessGroup
    : public c10::DebugInfoBase,
      public std::enable_shared_from_this<SyncBatchNorm::ProcessGroup> {
 public:
  explicit ProcessGroup(std::unique_ptr<Communicator> channel) : channel_(std::move(channel)) {}

  Communicator& channel() const { return *channel_; }

 private:
  std::unique_ptr<Communicator> channel_;
};

namespace {

using ProcessGroup = SyncBatchNorm::ProcessGroup;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// libtorch has a fixed list of kinds. This one is for its own tests, so no training uses it. It is
// not a constant expression in libtorch 2.14.
c10::DebugInfoKind group_kind() {
  return c10::DebugInfoKind::TEST_INFO_2;
}

// All dimensions except the channels.
std::vector<int64_t> reduced_dims(const Tensor& input) {
  std::vector<int64_t> dims = {0};
  for (int64_t dim = 2; dim < input.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

// One value per channel, in the type of the computation and in a shape that broadcasts against
// `input`.
Tensor per_channel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(static_cast<size_t>(input.dim()), 1);
  shape[1] = -1;
  return values.to(input.options()).view(shape);
}

// Half and bfloat16 are too inexact for sums.
Tensor widened(const Tensor& tensor) {
  return tensor.scalar_type() == torch::kFloat64 ? tensor : tensor.to(torch::kFloat32);
}

struct Statistics {
  Tensor mean;  // float64, on the CPU, as are all fields
  Tensor variance;
  double count = 0;  // values per channel on all workers
};

// Combines mean, sum of squared deviations and count of each worker with the formula of Chan et
// al., in the order of ranks.
Statistics gather_statistics(ProcessGroup& group, const Tensor& input) {
  const int64_t channels = input.size(1);
  Tensor mine = torch::zeros({2 * channels + 1}, torch::kFloat64);
  const int64_t count = input.numel() / channels;
  if (count > 0) {
    const auto [variance, mean] = torch::var_mean(input, reduced_dims(input), /*unbiased=*/false);
    mine.narrow(0, 0, channels).copy_(mean);
    mine.narrow(0, channels, channels).copy_(variance).mul_(count);
    mine[2 * channels] = static_cast<double>(count);
  }
  const Tensor all = group.channel().all_gather(mine);
  const Tensor means = all.narrow(1, 0, channels);
  const Tensor counts = all.narrow(1, 2 * channels, 1);
  const double total = counts.sum().item<double>();
  const Tensor mean = (means * counts).sum(0) / total;
  const Tensor squares =
      all.narrow(1, channels, channels).sum(0) + ((means - mean).square() * counts).sum(0);
  return {.mean = mean, .variance = squares / total, .count = total};
}

// Running averages of a module; undefined if it has none.
struct Running {
  Tensor mean;
  Tensor variance;
};

void update_running(Tensor running, const Tensor& now, double momentum) {
  if (running.defined()) {
    running.mul_(1 - momentum).add_(now.to(running.options()), momentum);
  }
}

struct SyncBatchNormFunction : torch::autograd::Function<SyncBatchNormFunction> {
  static Tensor forward(AutogradContext* context,
                        const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias,
                        const Running& running,
                        double momentum,
                        double epsilon,
                        const std::shared_ptr<ProcessGroup>& group) {
    const Tensor wide = widened(input);
    const Statistics statistics = gather_statistics(*group, wide);
    update_running(running.mean, statistics.mean, momentum);
    // As in one process: the unbiased variance of the whole batch.
    update_running(running.variance,
                   statistics.variance * (statistics.count / std::max(statistics.count - 1, 1.0)),
                   momentum);

    const Tensor rstd = (statistics.variance + epsilon).rsqrt();
    const Tensor scale = per_channel(rstd, wide) * per_channel(weight, wide);
    const Tensor offset = per_channel(bias, wide) - per_channel(statistics.mean, wide) * scale;
    context->save_for_backward({input, weight, statistics.mean, rstd});
    context->saved_data["count"] = statistics.count;
    context->saved_data["input"] = input.requires_grad();
    context->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<Held>(group));
    return torch::addcmul(offset, wide, scale).to(input.scalar_type());
  }

  // With dy the gradient of the output, x_centred = input - mean and means over all workers:
  //
  //   dx = weight * rstd * (dy - mean(dy) - x_centred * rstd^2 * mean(dy * x_centred))
  //
  // The gradients of weight and bias stay local: the strategy averages them with all others.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor input = widened(saved[0]);
    const Tensor gradient = gradients[0].to(input.scalar_type());
    const std::vector<int64_t> dims = reduced_dims(input);
    const Tensor x_centred = input - per_channel(saved[2], input);
    const Tensor sums = torch::stack({gradient.sum(dims), (gradient * x_centred).sum(dims)});

    variable_list result(7);
    result[1] = sums[1] * saved[3].to(sums.options());
    result[2] = sums[0];
    if (context->saved_data["input"].toBool()) {
      const auto held =
          c10::static_intrusive_pointer_cast<Held>(context->saved_data["group"].toCapsule());
      Tensor all = sums.to(torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
      held->group->channel().all_reduce(all);
      all = all.to(torch::kCPU) / context->saved_data["count"].toDouble();
      const Tensor scale = per_channel(saved[3], input) * per_channel(saved[1], input);
      const Tensor projection = scale * per_channel(all[1] * saved[3].square(), input);
      const Tensor offset = scale * per_channel(all[0], input);
      result[0] = torch::addcmul(-offset, x_centred, projection, -1)
                      .addcmul_(gradient, scale)
                      .to(saved[0].scalar_type());
    }
    return result;
  }

 private:
  // A type that an autograd context can store.
  struct Held : torch::CustomClassHolder {
    explicit Held(std::shared_ptr<ProcessGroup> held) : group(std::move(held)) {}
    std::shared_ptr<ProcessGroup> group;
  };
};

// The types are deduced from the declarations of libtorch, whose optional type differs between
// versions.
template <typename Schema>
struct BatchNorm;

template <typename Maybe>
struct BatchNorm<Tensor(const Tensor&,
                        const Maybe&,
                        const Maybe&,
                        const Maybe&,
                        const Maybe&,
                        bool,
                        double,
                        double,
                        bool)> {
  static Tensor shared(const Tensor& input,
                       const Maybe& weight,
                       const Maybe& bias,
                       const Maybe& running_mean,
                       const Maybe& running_var,
                       bool training,
                       double momentum,
                       double epsilon,
                       bool cudnn) {
    auto* group = training
                      ? dynamic_cast<ProcessGroup*>(c10::ThreadLocalDebugInfo::get(group_kind()))
                      : nullptr;
    if (group == nullptr) {
      return at::native::batch_norm(
          input, weight, bias, running_mean, running_var, training, momentum, epsilon, cudnn);
    }
    const auto tensor = [](const Maybe& maybe) {
      return maybe ? *maybe : Tensor();
    };
    const auto tensor_or = [&](const Maybe& maybe, double value) {
      const Tensor found = tensor(maybe);
      return found.defined() ? found : torch::full({input.size(1)}, value, input.options());
    };
    return SyncBatchNormFunction::apply(input,
                                        tensor_or(weight, 1),
                                        tensor_or(bias, 0),
                                        Running{tensor(running_mean), tensor(running_var)},
                                        momentum,
                                        epsilon,
                                        group->shared_from_this());
  }
};

template <typename Schema>
struct InstanceNorm;

template <typename... Arguments>
struct InstanceNorm<Tensor(Arguments...)> {
  // Instance norm is implemented as a batch norm of one sample, which must not be shared.
  static Tensor alone(Arguments... arguments) {
    const c10::DebugInfoGuard guard(group_kind(), std::make_shared<c10::DebugInfoBase>());
    return at::native::instance_norm(arguments...);
  }
};

void replace_operators() {
  // The table of the dispatcher must not change while operators run. So it is changed once, before
  // the exchange that all workers of the first process group execute in their constructor.
  static const std::vector<torch::Library> replaced = [] {
    std::vector<torch::Library> libraries;
    for (const auto key : {c10::DispatchKey::AutogradCPU, c10::DispatchKey::AutogradCUDA}) {
      torch::Library library(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
      library.impl("batch_norm", &BatchNorm<at::_ops::batch_norm::schema>::shared);
      library.impl("instance_norm", &InstanceNorm<at::_ops::instance_norm::schema>::alone);
      libraries.push_back(std::move(library));
    }
    return libraries;
  }();
}

}  // namespace

SyncBatchNorm::SyncBatchNorm() = default;

SyncBatchNorm::SyncBatchNorm(Communicator& communicator, const StrategyOptions& options) {
  if (!options.sync_batchnorm || communicator.size() == 1) {
    return;
  }
  if (options.uneven) {
    throw Error(ExitCode::Usage, "--sync-batchnorm does not support uneven inputs")
        .fact("requested", "sync_batchnorm and uneven", "StrategyOptions")
        .hint("drop --sync-batchnorm, or give every worker the same number of batches");
  }
  replace_operators();
  group_ = std::make_shared<ProcessGroup>(communicator.subset(communicator.size()));
}

SyncBatchNorm::~SyncBatchNorm() = default;
SyncBatchNorm::SyncBatchNorm(SyncBatchNorm&& other) noexcept = default;
SyncBatchNorm& SyncBatchNorm::operator=(SyncBatchNorm&& other) noexcept = default;

SyncBatchNorm::Scope SyncBatchNorm::enter() const {
  return group_ == nullptr ? nullptr : std::make_unique<c10::DebugInfoGuard>(group_kind(), group_);
}

}  // namespace lockstep::strategy
