// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "lockstep/muon.h"
#include "training/kernels/optimizer.h"
#include "training/optim/fused.h"
#include "training/optim/fused_template.h"
#include "training/optim/muon_step.h"

namespace lockstep::optim {
namespace {

// Limit of the 16-bit updates that are processed together. The working memory is about three times
// as large.
constexpr int64_t kBatchBytes = int64_t{256} << 20;

// Rows and columns of a parameter as a matrix, as it is stored.
using Shape = std::pair<int64_t, int64_t>;

Shape shape_of(const Tensor& parameter) {
  return {parameter.size(0), parameter.numel() / parameter.size(0)};
}

// The kernels treat a matrix as rows that are stored one after the other. The order of the elements
// within a row does not matter (channels-last convolutions): a permutation of the columns permutes
// the columns of the result.
bool has_rows(const Tensor& parameter) {
  return parameter.dim() >= 2 && parameter.numel() > 0 &&
         (parameter.size(0) == 1 || parameter.stride(0) == shape_of(parameter).second);
}

struct MuonKind {
  using Options = MuonOptions;

  static bool is_possible(const Tensor& parameter,
                          const Options& options,
                          const Options& /*first*/) {
    return !options.is_matrix() || has_rows(parameter);
  }

  // The update of a matrix does not depend on the number of steps, so all have the same age.
  static int64_t count(StateMap& states, const Tensor& parameter, const Options& options) {
    MuonParamState& state = muon_state(parameter, options.is_matrix(), states);
    state.step(state.step() + 1);
    return options.is_matrix() ? 0 : state.step();
  }

  static Rates rates(const Options& options, int64_t age) {
    Rates rates{.lr = static_cast<float>(options.lr()),
                .beta1 = static_cast<float>(options.momentum()),
                .weight_decay = static_cast<float>(options.weight_decay())};
    if (!options.is_matrix()) {
      const auto [beta1, beta2] = options.betas();
      const auto step = static_cast<double>(age);
      rates.beta1 = static_cast<float>(beta1);
      rates.beta2 = static_cast<float>(beta2);
      rates.epsilon = static_cast<float>(options.eps());
      rates.correction1 = static_cast<float>(1 - std::pow(beta1, step));
      rates.correction2 = static_cast<float>(1 - std::pow(beta2, step));
    }
    return rates;
  }

  // A matrix has no second moment.
  static void fill(StateMap& states, const Tensor& parameter, UpdatedTensor& entry) {
    auto& state = static_cast<MuonParamState&>(*states.at(state_key(parameter)));
    entry.first = state.exp_avg().data_ptr<float>();
    if (state.exp_avg_sq().defined()) {
      entry.second = state.exp_avg_sq().data_ptr<float>();
    } else {
      const auto [rows, columns] = shape_of(parameter);
      entry.scale = static_cast<float>(muon_scale(rows, columns));
    }
  }
};

// Orthogonalizes all matrices of `batch`, [count, rows, columns] in bfloat16, in place. `other` has
// the same shape and is overwritten.
//
// Products are of the smaller side. a is added to the diagonal of the polynomial: one product then
// makes an iteration, without a copy of X. Norms stay on the GPU.
void orthogonalize_batch(Tensor batch, Tensor other) {
  const bool is_tall = batch.size(1) > batch.size(2);
  const Tensor norms = batch.norm(2, {1, 2}, /*keepdim=*/true, torch::kFloat32);
  torch::div_out(other, batch, norms.add(NewtonSchulz::kNormEpsilon));
  // An odd number of iterations from `other` ends in `batch`.
  static_assert(NewtonSchulz::kIterations % 2 == 1);
  for (int i = 0; i < NewtonSchulz::kIterations; ++i) {
    const Tensor transposed = other.transpose(1, 2);
    const Tensor square = is_tall ? transposed.bmm(other) : other.bmm(transposed);
    const Tensor polynomial =
        torch::baddbmm(square, square, square, NewtonSchulz::kB, NewtonSchulz::kC);
    polynomial.diagonal(0, 1, 2).add_(NewtonSchulz::kA);
    if (is_tall) {
      torch::bmm_out(batch, other, polynomial);
    } else {
      torch::bmm_out(batch, polynomial, other);
    }
    std::swap(batch, other);
  }
}

class FusedMuon final : public Fused<Muon, MuonKind> {
 public:
  using Fused::Fused;

  bool is_fused() const override { return !has_shards() && Fused::is_fused(); }

 private:
  // AdamW updates its parameters with one kernel. Matrices are processed by shape, because a
  // batched product is as fast as one of a large matrix, while a small matrix leaves most of the
  // GPU idle.
  void launch_update(const Launch& /*launch*/,
                     const std::vector<UpdatedTensor>& entries,
                     const kernels::Clip& clip) override {
    std::vector<UpdatedTensor> others;
    std::map<Shape, std::vector<UpdatedTensor>> matrices;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].second != nullptr) {
        others.push_back(entries[i]);
      } else {
        matrices[shape_of(members()[i].parameter)].push_back(entries[i]);
      }
    }
    if (!others.empty()) {
      const int64_t elements = number(others);
      const Tensor table = upload(others);
      kernels::adamw_step(tensors_of(table),
                          static_cast<int>(others.size()),
                          elements,
                          rates(),
                          clip,
                          /*decay_in_gradient=*/false,
                          stream_of(table));
    }
    for (const auto& [shape, all] : matrices) {
      const int64_t bytes = shape.first * shape.second * 2;
      const auto most = static_cast<size_t>(std::max<int64_t>(1, kBatchBytes / bytes));
      for (size_t begin = 0; begin < all.size(); begin += most) {
        const size_t end = std::min(all.size(), begin + most);
        update_matrices(shape, {all.begin() + begin, all.begin() + end}, clip);
      }
    }
  }

  void update_matrices(Shape shape, std::vector<UpdatedTensor> entries, const kernels::Clip& clip) {
    const auto [rows, columns] = shape;
    const auto count = static_cast<int64_t>(entries.size());
    const Tensor batch =
        torch::empty({count, rows, columns},
                     torch::dtype(torch::kBFloat16).device(members().front().parameter.device()));
    auto* const first = static_cast<char*>(batch.data_ptr());
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto offset = static_cast<int64_t>(i) * rows * columns * batch.element_size();
      entries[i].update = reinterpret_cast<kernels::Bf16*>(first + offset);
    }
    const int64_t elements = number(entries);
    const Tensor table = upload(entries);
    const auto run = [&, size = static_cast<int>(entries.size())](auto* half) {
      half(tensors_of(table), size, elements, rates(), clip, stream_of(table));
    };
    run(&kernels::muon_momentum);
    orthogonalize_batch(batch, torch::empty_like(batch));
    run(&kernels::muon_update);
  }

  // Numbers the elements of a table. Returns their sum.
  static int64_t number(std::vector<UpdatedTensor>& entries) {
    int64_t elements = 0;
    for (UpdatedTensor& entry : entries) {
      entry.begin = elements;
      elements += entry.count;
    }
    return elements;
  }
};

}  // namespace

std::unique_ptr<Muon> make_fused_muon(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                                      const MuonOptions& options) {
  return std::make_unique<FusedMuon>(groups, options);
}

}  // namespace lockstep::optim
