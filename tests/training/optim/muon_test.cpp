// SPDX-License-Identifier: Apache-2.0
#include "lockstep/muon.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <vector>

#include "lockstep/error.h"
#include "lockstep/optimizer.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// A matrix in float64 without libtorch, by rows.
struct Matrix {
  size_t rows = 0;
  size_t columns = 0;
  std::vector<double> values;

  double at(size_t row, size_t column) const { return values[row * columns + column]; }
};

Matrix product(const Matrix& left, const Matrix& right) {
  Matrix result{left.rows, right.columns, std::vector<double>(left.rows * right.columns)};
  for (size_t i = 0; i < left.rows; ++i) {
    for (size_t j = 0; j < right.columns; ++j) {
      for (size_t k = 0; k < left.columns; ++k) {
        result.values[i * right.columns + j] += left.at(i, k) * right.at(k, j);
      }
    }
  }
  return result;
}

Matrix transposed(const Matrix& matrix) {
  Matrix result{matrix.columns, matrix.rows, std::vector<double>(matrix.values.size())};
  for (size_t i = 0; i < matrix.rows; ++i) {
    for (size_t j = 0; j < matrix.columns; ++j) {
      result.values[j * matrix.rows + i] = matrix.at(i, j);
    }
  }
  return result;
}

Matrix combination(const Matrix& one, double factor, const Matrix& other, double other_factor) {
  Matrix result = one;
  for (size_t i = 0; i < one.values.size(); ++i) {
    result.values[i] = factor * one.values[i] + other_factor * other.values[i];
  }
  return result;
}

// Newton-Schulz from its formula, always with the larger product: X' = a X + (b A + c A A) X.
Matrix newton_schulz(Matrix x) {
  double squares = 0;
  for (const double value : x.values) {
    squares += value * value;
  }
  x = combination(x, 1 / (std::sqrt(squares) + 1e-7), x, 0);
  for (int i = 0; i < 5; ++i) {
    const Matrix a = product(x, transposed(x));
    const Matrix polynomial = combination(a, -4.7750, product(a, a), 2.0315);
    x = combination(x, 3.4445, product(polynomial, x), 1);
  }
  return x;
}

Matrix matrix_of(const torch::Tensor& tensor) {
  const torch::Tensor flat = tensor.detach().flatten(1).contiguous();
  const auto* const data = flat.data_ptr<double>();
  return {static_cast<size_t>(flat.size(0)),
          static_cast<size_t>(flat.size(1)),
          std::vector<double>(data, data + flat.numel())};
}

// The largest difference to the reference in ten steps.
double muon_drift(const std::vector<int64_t>& shape, double weight_decay) {
  constexpr double kLr = 0.02;
  constexpr double kMomentum = 0.95;
  torch::manual_seed(5);
  torch::Tensor parameter = torch::randn(shape, torch::kFloat64).requires_grad_();
  Matrix expected = matrix_of(parameter);
  Matrix momentum = combination(expected, 0, expected, 0);
  Muon muon({torch::optim::OptimizerParamGroup({parameter})},
            MuonOptions(kLr).weight_decay(weight_decay));
  double maximum = 0;
  for (int step = 0; step < 10; ++step) {
    parameter.mutable_grad() = torch::randn(shape, torch::kFloat64);
    const Matrix gradient = matrix_of(parameter.grad());
    muon.step();
    momentum = combination(momentum, kMomentum, gradient, 1);
    const Matrix update = newton_schulz(combination(gradient, 1, momentum, kMomentum));
    const double scale = std::sqrt(
        std::max(1.0, static_cast<double>(update.rows) / static_cast<double>(update.columns)));
    expected = combination(expected, 1 - kLr * weight_decay, update, -kLr * scale);
    const Matrix found = matrix_of(parameter);
    for (size_t i = 0; i < found.values.size(); ++i) {
      maximum = std::max(maximum, std::abs(found.values[i] - expected.values[i]));
    }
  }
  return maximum;
}

TEST(Muon, FollowsItsFormulasForEveryShape) {
  EXPECT_LT(muon_drift({4, 4}, 0), 1e-10);
  EXPECT_LT(muon_drift({3, 7}, 0.1), 1e-10);
  EXPECT_LT(muon_drift({9, 2}, 0.1), 1e-10);
  EXPECT_LT(muon_drift({12, 2, 2, 2}, 0), 1e-10);  // a convolution, taller than wide
  EXPECT_LT(muon_drift({3, 2, 3, 3}, 0.1), 1e-10);
}

TEST(Muon, UpdatesOtherParametersAsAdamW) {
  torch::manual_seed(6);
  torch::Tensor ours = torch::randn({5}, torch::kFloat64).requires_grad_();
  torch::Tensor theirs = ours.detach().clone().requires_grad_();
  Muon muon({torch::optim::OptimizerParamGroup({ours})},
            MuonOptions(0.01).is_matrix(false).weight_decay(0.1).betas({0.8, 0.9}).eps(1e-6));
  torch::optim::AdamW adamw(
      {theirs}, torch::optim::AdamWOptions(0.01).weight_decay(0.1).betas({0.8, 0.9}).eps(1e-6));
  for (int step = 0; step < 10; ++step) {
    ours.mutable_grad() = torch::randn({5}, torch::kFloat64);
    theirs.mutable_grad() = ours.grad().clone();
    muon.step();
    adamw.step();
  }
  EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-13);
}

TEST(Muon, LeavesAParameterWithoutGradientAlone) {
  const torch::Tensor parameter = torch::ones({2, 2}, torch::requires_grad());
  Muon muon({torch::optim::OptimizerParamGroup({parameter})});
  muon.step();
  EXPECT_TRUE(parameter.equal(torch::ones({2, 2})));
  EXPECT_TRUE(muon.state().empty());
}

struct TextModel : torch::nn::Module {
  torch::nn::Embedding tokens = register_module("tokens", torch::nn::Embedding(10, 4));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(4, 4));
  torch::nn::LayerNorm norm =
      register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({4})));
  torch::nn::Linear scores = register_module("scores", torch::nn::Linear(4, 10));
};

std::vector<size_t> group_sizes(torch::optim::Optimizer& optimizer) {
  std::vector<size_t> sizes;
  for (const auto& group : optimizer.param_groups()) {
    sizes.push_back(group.params().size());
  }
  return sizes;
}

TEST(MakeOptimizer, GivesHiddenMatricesToMuonAndTheRestToAdamW) {
  TextModel model;
  const auto muon = make_optimizer(model, {.name = "muon", .lr = 0.02, .weight_decay = 0.1});
  // The hidden matrix; embedding and output layer; biases and norms.
  EXPECT_THAT(group_sizes(*muon), ElementsAre(1, 2, 4));
  EXPECT_TRUE(muon->param_groups()[0].params()[0].is_same(model.hidden->weight));
  EXPECT_THAT(learning_rates(*muon), ElementsAre(0.02, 0.002, 0.002));
  const auto decay = [&](size_t group) {
    return static_cast<MuonOptions&>(muon->param_groups()[group].options()).weight_decay();
  };
  EXPECT_THAT((std::vector<double>{decay(0), decay(1), decay(2)}), ElementsAre(0.1, 0.1, 0));
}

TEST(MakeOptimizer, NeedsTheMatricesOfAListOfParametersForMuon) {
  TextModel model;
  EXPECT_THAT([&] { make_optimizer(model.parameters(), {.name = "muon"}); },
              ThrowsMessage<Error>(HasSubstr("hidden_matrices(model)")));
  const auto muon =
      make_optimizer(model.parameters(), {.name = "muon", .matrices = hidden_matrices(model)});
  EXPECT_THAT(group_sizes(*muon), ElementsAre(1, 6));
}

}  // namespace
}  // namespace lockstep
