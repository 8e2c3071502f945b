// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <torch/optim.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "training/kernels/optimizer.h"
#include "training/optim/fused.h"
#include "training/optim/state_key.h"

namespace lockstep::optim {

using kernels::Rates;
using kernels::UpdatedTensor;
using torch::Tensor;

inline bool is_plain(const Tensor& tensor) {
  return tensor.is_cuda() && tensor.scalar_type() == torch::kFloat32 &&
         tensor.layout() == torch::kStrided && tensor.is_non_overlapping_and_dense();
}

// Equal strides, so that one index addresses the same element in all tensors.
inline bool fits(const Tensor& parameter) {
  const Tensor& gradient = parameter.grad();
  return is_plain(parameter) && is_plain(gradient) && parameter.strides() == gradient.strides();
}

// The bytes of `items`, to be copied to the GPU.
template <typename Item>
Tensor to_bytes(const std::vector<Item>& items, bool pinned) {
  Tensor bytes = torch::empty({static_cast<int64_t>(items.size() * sizeof(Item))},
                              torch::dtype(torch::kUInt8).pinned_memory(pinned));
  std::memcpy(bytes.data_ptr(), items.data(), items.size() * sizeof(Item));
  return bytes;
}

// An optimizer whose step is few kernels for all parameters (kernels/optimizer.h). State and
// options stay those of the base class, so checkpoints and schedules do not see a difference; a
// step that the kernels cannot do is left to the base class. Kind has the parts that differ between
// optimizers.
//
// A step has two halves. prepare() runs on the host: it counts steps and copies learning rates and
// bias corrections to the GPU (Rates). launch() only queues kernels with fixed addresses. A CUDA
// graph records launch(); before each replay prepare() runs again, because a replay repeats the
// kernels but not the host code.
template <typename Base, typename Kind>
class Fused : public Base, public FusedOptimizer {
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
  // twice. Checked in every step, because layout and device of gradients can change.
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
        if (!fits(parameter) || !Kind::is_possible(parameter, options, first) ||
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

 protected:
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

  // Queues the kernels that update the parameters. `entries` is the table on the host, in the order
  // of members().
  virtual void launch_update(const Launch& launch,
                             const std::vector<UpdatedTensor>& entries,
                             const kernels::Clip& clip) = 0;

  // The parameters of the last prepared step.
  const std::vector<Member>& members() const { return members_; }

  static const UpdatedTensor* tensors_of(const Tensor& table) {
    return static_cast<const UpdatedTensor*>(table.data_ptr());
  }

  static kernels::Stream stream_of(const Tensor& table) {
    return c10::cuda::getCurrentCUDAStream(table.device().index()).stream();
  }

  const Rates* rates() const { return static_cast<const Rates*>(rates_.data_ptr()); }

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

 private:
  static constexpr int64_t kRoom = 256;  // maximum of groups times step counts; a generous limit

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
    {
      const c10::cuda::CUDAGuard guard(launch.table.device());
      launch_update(launch, entries, clip);
    }
    if (is_recorded()) {
      recorded_launch_ = std::move(launch);
    }
  }

  // The sum of squares of all gradients.
  Tensor add_up(const Launch& launch) const {
    const auto on_gpu = torch::device(launch.table.device());
    Tensor squares = torch::empty({1}, on_gpu.dtype(torch::kFloat64));
    const Tensor workspace =
        torch::empty({kernels::square_sum_workspace()}, on_gpu.dtype(torch::kUInt8));
    const c10::cuda::CUDAGuard guard(launch.table.device());
    kernels::square_sum(squares.template data_ptr<double>(),
                        tensors_of(launch.table),
                        launch.count,
                        launch.elements,
                        rates(),
                        workspace.data_ptr(),
                        stream_of(launch.table));
    return squares;
  }

  std::vector<Member> members_;
  size_t recorded_rates_ = 0;
  std::vector<Rates> rates_now_;
  Tensor rates_;            // on the GPU
  Tensor squares_;          // sum of squares, on the GPU
  Launch recorded_launch_;  // the recorded launch
  std::set<const void*> recorded_;
  std::vector<Tensor> recorded_tables_;
};

}  // namespace lockstep::optim
