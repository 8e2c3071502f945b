// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/class_head.h"

#include <cmath>
#include <limits>

#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

TEST(PixelMean, AgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const std::vector<int64_t>& shape : std::vector<std::vector<int64_t>>{
           {1, 1, 8}, {3, 49, 2048}, {256, 49, 2048}, {5, 64, 512}, {700, 4, 16}}) {
    const torch::Tensor input = random_bf16(shape, 2, 1);
    const torch::Tensor output = poison({shape[0], shape[2]}, torch::kBFloat16);

    pixel_mean({.output = bf16(output),
                .input = bf16(input),
                .images = shape[0],
                .pixels = shape[1],
                .channels = shape[2]},
               stream());

    const torch::Tensor wide = input.to(torch::kFloat64);
    expect_within(
        output, wide.mean(1), wide.mean(1).abs() * kBf16Bound + wide.abs().mean(1) * kSumBound);
  }
}

TEST(PixelMean, SpreadsItsGradient) {
  LOCKSTEP_NEEDS_GPU();
  for (const std::vector<int64_t>& shape :
       std::vector<std::vector<int64_t>>{{1, 1, 8}, {256, 49, 2048}, {5, 64, 512}, {700, 4, 16}}) {
    const torch::Tensor gradient = random_bf16({shape[0], shape[2]});
    const torch::Tensor output = poison(shape, torch::kBFloat16);

    pixel_mean_backward({.output = bf16(output),
                         .gradient = bf16(gradient),
                         .images = shape[0],
                         .pixels = shape[1],
                         .channels = shape[2]},
                        stream());

    const torch::Tensor wanted =
        (gradient.to(torch::kFloat64) / static_cast<double>(shape[1])).unsqueeze(1);
    expect_close(output, wanted.expand(shape), kBf16Bound, 0);
  }
}

constexpr double kFactor = 1.0 / 3;

struct Entropy {
  torch::Tensor loss;
  torch::Tensor losses;
  torch::Tensor gradient;
};

// Computes the loss, and the gradient of kFactor times the loss, with the kernels.
Entropy entropy_of(const torch::Tensor& scores, const torch::Tensor& targets, double smoothing) {
  const int64_t rows = scores.size(0);
  const int64_t classes = scores.size(1);
  Entropy entropy{.loss = poison({}, torch::kFloat32),
                  .losses = poison({rows}, torch::kFloat32),
                  .gradient = poison({rows, classes}, torch::kBFloat16)};
  const torch::Tensor share = poison({}, torch::kFloat32);
  const torch::Tensor log_sum_exp = poison({rows}, torch::kFloat32);
  const torch::Tensor factor = torch::full({}, kFactor, on_gpu(torch::kFloat32));
  class_entropy({.loss = floats(entropy.loss),
                 .share = floats(share),
                 .losses = floats(entropy.losses),
                 .log_sum_exp = floats(log_sum_exp),
                 .scores = bf16(scores),
                 .targets = integers(targets),
                 .rows = rows,
                 .classes = classes,
                 .smoothing = static_cast<float>(smoothing)},
                stream());
  class_entropy_backward({.gradient = bf16(entropy.gradient),
                          .factor = floats(factor),
                          .share = floats(share),
                          .log_sum_exp = floats(log_sum_exp),
                          .scores = bf16(scores),
                          .targets = integers(targets),
                          .rows = rows,
                          .classes = classes,
                          .smoothing = static_cast<float>(smoothing)},
                         stream());
  return entropy;
}

// Computes the same with operators of libtorch in float64.
Entropy wanted_of(const torch::Tensor& scores, const torch::Tensor& targets, double smoothing) {
  namespace F = torch::nn::functional;
  const torch::Tensor wide = scores.to(torch::kFloat64).requires_grad_();
  const auto options = F::CrossEntropyFuncOptions().label_smoothing(smoothing);
  const torch::Tensor loss = F::cross_entropy(wide, targets, options);
  (loss * kFactor).backward();
  return {.loss = loss.detach(),
          .losses = F::cross_entropy(
                        wide, targets, F::CrossEntropyFuncOptions(options).reduction(torch::kNone))
                        .detach(),
          .gradient = wide.grad()};
}

void expect_libtorchs(const torch::Tensor& scores, const torch::Tensor& targets, double smoothing) {
  const Entropy entropy = entropy_of(scores, targets, smoothing);
  const Entropy wanted = wanted_of(scores, targets, smoothing);
  expect_close(entropy.losses, wanted.losses, 1e-5, 1e-6);
  expect_close(entropy.loss, wanted.loss, 1e-5, 1e-6);
  // log_sum_exp has 24 bits, which limits the absolute error of the probabilities.
  const double absolute = 1e-5 * kFactor / static_cast<double>(scores.size(0));
  expect_close(entropy.gradient, wanted.gradient, kBf16Bound, absolute);
}

TEST(ClassEntropy, AgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const std::pair<int64_t, int64_t>& shape : std::vector<std::pair<int64_t, int64_t>>{
           {1, 2}, {7, 10}, {256, 1000}, {33, 200}, {3, 5003}, {700, 10}}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      const auto [rows, classes] = shape;
      SCOPED_TRACE(std::to_string(classes) + " classes, " + std::to_string(smoothing));
      const torch::Tensor scores = random_bf16({rows, classes}, 3, 20);
      const torch::Tensor targets = torch::randint(classes, {rows}, on_gpu(torch::kInt64));
      targets[0] = classes - 1;

      expect_libtorchs(scores, targets, smoothing);
    }
  }
}

TEST(ClassEntropy, LeavesOutRowsWithoutATarget) {
  LOCKSTEP_NEEDS_GPU();
  for (const double smoothing : {0.0, 0.1}) {
    SCOPED_TRACE(smoothing);
    const torch::Tensor scores = random_bf16({300, 10}, 3, 20);
    const torch::Tensor targets = torch::randint(10, {300}, on_gpu(torch::kInt64));
    targets.slice(0, 100, 170).fill_(kNoTarget);

    expect_libtorchs(scores, targets, smoothing);
    const Entropy entropy = entropy_of(scores, targets, smoothing);
    EXPECT_EQ(entropy.gradient.slice(0, 100, 170).count_nonzero().item<int64_t>(), 0);

    // Without rows that count, the mean is NaN and the gradient zero.
    targets.fill_(kNoTarget);
    const Entropy none = entropy_of(scores, targets, smoothing);
    EXPECT_TRUE(std::isnan(none.loss.item<double>()));
    EXPECT_EQ(none.gradient.count_nonzero().item<int64_t>(), 0);
  }
}

TEST(ClassEntropy, TakesClassesThatAreRuledOut) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor scores = random_bf16({5, 10});
  scores.slice(1, 7, 10).fill_(-std::numeric_limits<double>::infinity());
  const torch::Tensor targets = torch::randint(7, {5}, on_gpu(torch::kInt64));

  expect_libtorchs(scores, targets, 0);

  // The loss is infinite if the target, or a class that smoothing includes, has a score of -inf.
  targets[3] = 8;
  EXPECT_EQ(entropy_of(scores, targets, 0).loss.item<double>(),
            std::numeric_limits<double>::infinity());
  targets[3] = 2;
  EXPECT_EQ(entropy_of(scores, targets, 0.1).loss.item<double>(),
            std::numeric_limits<double>::infinity());
}

TEST(ClassEntropy, IsNoNumberWhereTheTargetIsNoClass) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor scores = random_bf16({3, 10});
  const torch::Tensor targets = torch::tensor({4, -1, 10}, on_gpu(torch::kInt64));

  const Entropy entropy = entropy_of(scores, targets, 0);

  EXPECT_TRUE(std::isnan(entropy.loss.item<double>()));
  const torch::Tensor is_nan = entropy.losses.isnan().cpu();
  const torch::Tensor is_nan_gradient = entropy.gradient.isnan().all(1).cpu();
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(is_nan[row].item<bool>(), row > 0);
    EXPECT_EQ(is_nan_gradient[row].item<bool>(), row > 0);
  }
}

}  // namespace
}  // namespace lockstep::kernels
