// SPDX-License-Identifier: Apache-2.0
#include "kernels/class_head.h"

#include "kernels/support.h"

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

TEST(ClassEntropy, AgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const std::pair<int64_t, int64_t>& shape : std::vector<std::pair<int64_t, int64_t>>{
           {1, 2}, {7, 10}, {256, 1000}, {33, 200}, {3, 5003}}) {
    for (const double smoothing : {0.0, 0.1, 1.0}) {
      const auto [rows, classes] = shape;
      SCOPED_TRACE(std::to_string(classes) + " classes, " + std::to_string(smoothing));
      const torch::Tensor scores = random_bf16({rows, classes}, 3, 20);
      const torch::Tensor targets = torch::randint(classes, {rows}, on_gpu(torch::kInt64));
      targets[0] = classes - 1;
      const torch::Tensor losses = poison({rows}, torch::kFloat32);
      const torch::Tensor logarithms = poison({rows}, torch::kFloat32);
      const torch::Tensor gradient = poison({rows, classes}, torch::kBFloat16);
      const torch::Tensor factor = torch::full({}, 1.0 / 3, on_gpu(torch::kFloat32));

      class_entropy({.losses = floats(losses),
                     .logarithms = floats(logarithms),
                     .scores = bf16(scores),
                     .targets = integers(targets),
                     .rows = rows,
                     .classes = classes,
                     .smoothing = static_cast<float>(smoothing)},
                    stream());
      class_entropy_backward({.gradient = bf16(gradient),
                              .factor = floats(factor),
                              .logarithms = floats(logarithms),
                              .scores = bf16(scores),
                              .targets = integers(targets),
                              .rows = rows,
                              .classes = classes,
                              .smoothing = static_cast<float>(smoothing),
                              .scale = 1.0F / 64},
                             stream());

      const torch::Tensor wide = scores.to(torch::kFloat64);
      const torch::Tensor logs = torch::log_softmax(wide, 1);
      const torch::Tensor aimed = logs.gather(1, targets.unsqueeze(1)).squeeze(1);
      expect_close(losses, -(1 - smoothing) * aimed - smoothing * logs.mean(1), 1e-5, 1e-4);
      const torch::Tensor wanted =
          torch::full_like(wide, smoothing / static_cast<double>(classes))
              .scatter_add_(1,
                            targets.unsqueeze(1),
                            torch::full({rows, 1}, 1 - smoothing, on_gpu(torch::kFloat64)));
      expect_close(gradient, (logs.exp() - wanted) / 3 / 64, kBf16Bound, 1e-7);
    }
  }
}

TEST(ClassEntropy, IsNoNumberWhereTheTargetIsNoClass) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor scores = random_bf16({3, 10});
  const torch::Tensor targets = torch::tensor({4, -1, 10}, on_gpu(torch::kInt64));
  const torch::Tensor losses = poison({3}, torch::kFloat32);
  const torch::Tensor logarithms = poison({3}, torch::kFloat32);
  const torch::Tensor gradient = poison({3, 10}, torch::kBFloat16);
  const torch::Tensor factor = torch::ones({}, on_gpu(torch::kFloat32));

  class_entropy({.losses = floats(losses),
                 .logarithms = floats(logarithms),
                 .scores = bf16(scores),
                 .targets = integers(targets),
                 .rows = 3,
                 .classes = 10},
                stream());
  class_entropy_backward({.gradient = bf16(gradient),
                          .factor = floats(factor),
                          .logarithms = floats(logarithms),
                          .scores = bf16(scores),
                          .targets = integers(targets),
                          .rows = 3,
                          .classes = 10},
                         stream());

  const torch::Tensor is_nan = losses.isnan().cpu();
  const torch::Tensor is_nan_gradient = gradient.isnan().all(1).cpu();
  for (int row = 0; row < 3; ++row) {
    EXPECT_EQ(is_nan[row].item<bool>(), row > 0);
    EXPECT_EQ(is_nan_gradient[row].item<bool>(), row > 0);
  }
}

}  // namespace
}  // namespace lockstep::kernels
