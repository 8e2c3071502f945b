// SPDX-License-Identifier: Apache-2.0
#include "training/optim/fused.h"

#include <algorithm>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <torch/utils.h>

#include "common/base/check.h"
#include "training/kernels/optimizer.h"
#include "training/optim/state_key.h"

namespace lockstep::optim {
namespace {

using kernels::Rates;
using kernels::UpdatedTensor;
using torch::Tensor;

bool is_plain(const Tensor& tensor) {
  return tensor.is_cuda() && tensor.scalar_type() == torch::kFloat32 &&
         tensor.layout() == torch::kStrided && tensor.is_non_overlapping_and_dense();
}

// Equal strides, so that one index addresses the same element in all tensors.
bool fits(const Tensor& parameter) {
  const Tensor& gradient = parameter.grad();
  return is_plain(parameter) && is_plain(gradient) && parameter.strides() == gradient.strides();
}

// The parts of a step that differ between Adam and AdamW on one side and SGD on the other.
template <typename OptionsType, typename StateType, bool kDecayInGradient>
struct AdamKind {
  using Options = OptionsType;
  using State = StateType;

  static bool is_possible(const Options& options, const Options& /*first*/) {
    return !options.amsgrad();
  }

  // Counts a step of this parameter. The result distinguishes parameters of one group with
  // different numbers of steps, which need different bias corrections.
  static int64_t count(StateMap& states, const Tensor& parameter, const Options& /*options*/) {
    auto& slot = states[state_key(parameter)];
    if (slot == nullptr) {
      auto fresh = std::make_unique<State>();
      fresh->step(0);
      fresh->exp_avg(torch::zeros_like(parameter));
      fresh->exp_avg_sq(torch::zeros_like(parameter));
      slot = std::move(fresh);
    }
    auto& state = static_cast<State&>(*slot);
    state.step(state.step() + 1);
    return state.step();
  }

  static Rates rates(const Options& options, int64_t age) {
    const auto [beta1, beta2] = options.betas();
    const auto step = static_cast<double>(age);
    return {.lr = static_cast<float>(options.lr()),
            .beta1 = static_cast<float>(beta1),
            .beta2 = static_cast<float>(beta2),
            .epsilon = static_cast<float>(options.eps()),
            .weight_decay = static_cast<float>(options.weight_decay()),
            .correction1 = static_cast<float>(1 - std::pow(beta1, step)),
            .correction2 = static_cast<float>(1 - std::pow(beta2, step))};
  }

  static void fill(StateMap& states, const Tensor& parameter, UpdatedTensor& entry) {
    auto& state = static_cast<State&>(*states.at(state_key(parameter)));
    entry.first = state.exp_avg().template data_ptr<float>();
    entry.second = state.exp_avg_sq().template data_ptr<float>();
  }

  static void launch(const UpdatedTensor* table,
                     int count,
                     int64_t elements,
                     const Rates* rates,
                     const kernels::Clip& clip,
                     const Options& /*options*/,
                     kernels::Stream stream) {
    kernels::adamw_step(table, count, elements, rates, clip, kDecayInGradient, stream);
  }
};

// libtorch creates the momentum of SGD from the first gradient. Here the buffer is allocated
// before, and the kernel gets a flag for the first step. Without momentum there is no state.
struct SgdKind {
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  enum Age : int64_t { kFirst, kLater };

  // The kernel has one flag for all groups.
  static bool is_possible(const Options& options, const Options& first) {
    return options.nesterov() == first.nesterov();
  }

  static int64_t count(StateMap& states, const Tensor& parameter, const Options& options) {
    if (options.momentum() == 0) {
      return kLater;
    }
    auto& slot = states[state_key(parameter)];
    if (slot != nullptr && static_cast<State&>(*slot).momentum_buffer().defined()) {
      return kLater;
    }
    auto fresh = std::make_unique<State>();
    fresh->momentum_buffer(torch::zeros_like(parameter));
    slot = std::move(fresh);
    return kFirst;
  }

  // The fields of Adam serve SGD as well: beta1 is the momentum, beta2 the dampening, and
  // correction1 is 0 in the first step, in which libtorch does not dampen the gradient.
  static Rates rates(const Options& options, int64_t age) {
    return {.lr = static_cast<float>(options.lr()),
            .beta1 = static_cast<float>(options.momentum()),
            .beta2 = static_cast<float>(options.dampening()),
            .weight_decay = static_cast<float>(options.weight_decay()),
            .correction1 = age == kFirst ? 0.0F : 1.0F};
  }

  static void fill(StateMap& states, const Tensor& parameter, UpdatedTensor& entry) {
    const auto found = states.find(state_key(parameter));
    if (found != states.end()) {
      entry.first = static_cast<State&>(*found->second).momentum_buffer().data_ptr<float>();
    }
  }

  static void launch(const UpdatedTensor* table,
                     int count,
                     int64_t elements,
                     const Rates* rates,
                     const kernels::Clip& clip,
                     const Options& options,
                     kernels::Stream stream) {
    kernels::sgd_step(table, count, elements, rates, clip, options.nesterov(), stream);
  }
};

// The bytes of `items`, to be copied to the GPU.
template <typename Item>
Tensor to_bytes(const std::vector<Item>& items, bool pinned) {
  Tensor bytes = torch::empty({static_cast<int64_t>(items.size() * sizeof(Item))},
                              torch::dtype(torch::kUInt8).pinned_memory(pinned));
  std::memcpy(bytes.data_ptr(), items.data(), items.size() * sizeof(Item));
  return bytes;
}

// An optimizer of libtorch whose step is one kernel for all parameters (kernels/optimizer.h). State
// and options stay those of libtorch, so checkpoints and schedules do not see a difference; a step
// that the kernel cannot do is left to the base class.
//
// A step has two halves. prepare() runs on the host: it counts steps and copies learning rates and
// bias corrections to the GPU (Rates). launch() only queues kernels with fixed addresses. A CUDA
// graph records launch(); before each replay prepare() runs again, because a replay repeats the
// kernels but not the host code.
template <typename Base, typename Kind>
class Fused final : public Base, public FusedOptimizer {
 public:
  using Base::Base;

  Tensor step(typename Base::LossClosure closure = nullptr) override {
    if (closure != nullptr || !is_fused()) {
      LOCKSTEP_CHECK(!is_recorded());
      return Base::step(std::move(closure));
    }
    step_fused({});
    return {};
  }

  // All gradients or none: a step that is half fused would count the steps of some parameters
  // twice. Asked in every step, because layout and device of gradients can change.
  bool is_fused() const override {
    std::optional<torch::Device> device;
    const auto& first =
        static_cast<const typename Kind::Options&>(this->param_groups_.front().options());
    for (const auto& group : this->param_groups_) {
      const auto& options = static_cast<const typename Kind::Options&>(group.options());
      for (const Tensor& parameter : group.params()) {
        if (!parameter.grad().defined()) {
          continue;
        }
        if (!Kind::is_possible(options, first) || !fits(parameter) ||
            device.value_or(parameter.device()) != parameter.device()) {
          return false;
        }
        device = parameter.device();
      }
    }
    return device.has_value();
  }

  void prepare() override {
    const torch::NoGradGuard no_grad;
    members_.clear();
    std::vector<Rates> rates;
    std::map<std::pair<size_t, int64_t>, int> known;
    for (size_t i = 0; i < this->param_groups_.size(); ++i) {
      auto& group = this->param_groups_[i];
      const auto& options = static_cast<const typename Kind::Options&>(group.options());
      for (const Tensor& parameter : group.params()) {
        if (!takes_part(parameter)) {
          continue;
        }
        const auto key = std::pair(i, Kind::count(this->state_, parameter, options));
        const auto [place, is_new] = known.try_emplace(key, static_cast<int>(rates.size()));
        if (is_new) {
          rates.push_back(Kind::rates(options, key.second));
        }
        members_.push_back({parameter, place->second});
      }
    }
    LOCKSTEP_CHECK(!is_recorded() || recorded_.empty() || rates.size() == recorded_rates_);
    rates_now_ = rates;
    upload_rates(rates);
  }

  Tensor norm() const override { return squares_.sqrt(); }

  // Without clipping, the sum of squares was not part of the recording. The gradients are still
  // where the GPU left them.
  Tensor recorded_norm() const override {
    const torch::NoGradGuard no_grad;
    return (recorded_launch_.squares.defined() ? recorded_launch_.squares
                                               : add_up(recorded_launch_))
        .sqrt();
  }

  void drop_recorded() override {
    recorded_.clear();
    recorded_tables_.clear();
    recorded_launch_ = {};
  }

 private:
  static constexpr int64_t kRoom = 256;  // maximum of groups times step counts; a generous limit

  struct Member {
    Tensor parameter;
    int rates;
  };

  // Arguments of the kernels of a step.
  struct Launch {
    Tensor table;  // array of UpdatedTensor, on the GPU
    int count = 0;
    int64_t elements = 0;
    Tensor squares;                 // undefined: not requested
    std::vector<Tensor> gradients;  // of a recorded step: must stay alive
  };

  // During replay, gradients exist only on the GPU. The parameters that took part in the recording
  // still do.
  bool takes_part(const Tensor& parameter) const {
    if (!is_recorded()) {
      return parameter.grad().defined();
    }
    return recorded_.contains(parameter.unsafeGetTensorImpl());
  }

  // CUDA copies such a small pageable buffer before the call returns, so the host buffer can be
  // released.
  void upload_rates(const std::vector<Rates>& rates) {
    const Tensor bytes = to_bytes(rates, false);
    if (!rates_.defined() || rates_.numel() < bytes.numel()) {
      // A recorded step reads the buffer at its address, so it must not be reallocated.
      LOCKSTEP_CHECK(recorded_.empty());
      const int64_t room = std::max(bytes.numel(), kRoom * static_cast<int64_t>(sizeof(Rates)));
      rates_ = torch::empty({room}, bytes.options().device(members_.front().parameter.device()));
    }
    rates_.narrow(0, 0, bytes.numel()).copy_(bytes, /*non_blocking=*/true);
  }

  void launch(const FusedStep& options) override {
    const torch::NoGradGuard no_grad;
    if (options.gradient_scale != 1 && !is_recorded()) {
      std::vector<Rates> scaled = rates_now_;
      for (Rates& each : scaled) {
        each.gradient_scale = static_cast<float>(options.gradient_scale);
      }
      upload_rates(scaled);
    }
    Launch launch;
    std::vector<UpdatedTensor> entries;
    for (const Member& member : members_) {
      UpdatedTensor entry{.parameter = member.parameter.template data_ptr<float>(),
                          .gradient = member.parameter.grad().template data_ptr<float>(),
                          .count = member.parameter.numel(),
                          .begin = launch.elements,
                          .group = member.rates};
      Kind::fill(this->state_, member.parameter, entry);
      launch.elements += entry.count;
      entries.push_back(entry);
      if (is_recorded()) {
        recorded_.insert(member.parameter.unsafeGetTensorImpl());
        launch.gradients.push_back(member.parameter.grad());
        recorded_rates_ = rates_now_.size();
      }
    }
    launch.table = upload(entries);
    launch.count = static_cast<int>(entries.size());
    kernels::Clip clip;
    if (options.clip_norm > 0 || options.wants_norm) {
      launch.squares = add_up(launch);
      squares_ = launch.squares;
    }
    if (options.clip_norm > 0) {
      clip = {.squares = squares_.template data_ptr<double>(),
              .max_norm = static_cast<float>(options.clip_norm)};
    }
    const auto& first =
        static_cast<const typename Kind::Options&>(this->param_groups_.front().options());
    const c10::cuda::CUDAGuard guard(launch.table.device());
    Kind::launch(tensors_of(launch),
                 launch.count,
                 launch.elements,
                 static_cast<const Rates*>(rates_.data_ptr()),
                 clip,
                 first,
                 stream_of(launch));
    if (is_recorded()) {
      recorded_launch_ = std::move(launch);
    }
  }

  static const UpdatedTensor* tensors_of(const Launch& launch) {
    return static_cast<const UpdatedTensor*>(launch.table.data_ptr());
  }

  static kernels::Stream stream_of(const Launch& launch) {
    return c10::cuda::getCurrentCUDAStream(launch.table.device().index()).stream();
  }

  // The sum of squares of all gradients.
  Tensor add_up(const Launch& launch) const {
    const auto on_gpu = torch::device(launch.table.device());
    Tensor squares = torch::empty({1}, on_gpu.dtype(torch::kFloat64));
    const Tensor workspace =
        torch::empty({kernels::square_sum_workspace()}, on_gpu.dtype(torch::kUInt8));
    const c10::cuda::CUDAGuard guard(launch.table.device());
    kernels::square_sum(squares.template data_ptr<double>(),
                        tensors_of(launch),
                        launch.count,
                        launch.elements,
                        static_cast<const Rates*>(rates_.data_ptr()),
                        workspace.data_ptr(),
                        stream_of(launch));
    return squares;
  }

  // A recorded copy reads the host buffer at each replay, so the buffer must be pinned and stay
  // alive.
  Tensor upload(const std::vector<UpdatedTensor>& entries) {
    const Tensor bytes = to_bytes(entries, is_recorded());
    Tensor table =
        torch::empty_like(bytes, bytes.options().device(rates_.device()).pinned_memory(false));
    table.copy_(bytes, /*non_blocking=*/true);
    if (is_recorded()) {
      recorded_tables_.push_back(bytes);
    }
    return table;
  }

  std::vector<Member> members_;  // of the last prepared step
  size_t recorded_rates_ = 0;
  std::vector<Rates> rates_now_;
  Tensor rates_;            // on the GPU
  Tensor squares_;          // sum of squares, on the GPU
  Launch recorded_launch_;  // the recorded launch
  std::set<const void*> recorded_;
  std::vector<Tensor> recorded_tables_;
};

using FusedAdam = Fused<
    torch::optim::Adam,
    AdamKind<torch::optim::AdamOptions, torch::optim::AdamParamState, /*kDecayInGradient=*/true>>;
using FusedAdamW = Fused<torch::optim::AdamW,
                         AdamKind<torch::optim::AdamWOptions,
                                  torch::optim::AdamWParamState,
                                  /*kDecayInGradient=*/false>>;
using FusedSgd = Fused<torch::optim::SGD, SgdKind>;

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

template <typename Made, typename Options>
std::unique_ptr<torch::optim::Optimizer> make_adam(const Groups& groups,
                                                   const OptimizerOptions& options) {
  return std::make_unique<Made>(groups,
                                Options(options.lr)
                                    .betas(std::make_tuple(options.beta1, options.beta2))
                                    .eps(options.epsilon)
                                    .weight_decay(options.weight_decay));
}

}  // namespace

std::unique_ptr<torch::optim::Optimizer> make_fused(const Groups& groups,
                                                    const OptimizerOptions& options) {
  if (options.name == "adam") {
    return make_adam<FusedAdam, torch::optim::AdamOptions>(groups, options);
  }
  if (options.name == "adamw") {
    return make_adam<FusedAdamW, torch::optim::AdamWOptions>(groups, options);
  }
  if (options.name == "sgd") {
    return std::make_unique<FusedSgd>(groups,
                                      torch::optim::SGDOptions(options.lr)
                                          .momentum(options.momentum)
                                          .dampening(options.dampening)
                                          .nesterov(options.nesterov)
                                          .weight_decay(options.weight_decay));
  }
  return nullptr;
}

}  // namespace lockstep::optim
