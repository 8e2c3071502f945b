// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/cross_entropy.h"

#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

struct Shape {
  int64_t rows;
  int64_t classes;
  int64_t stride;
};

// The last two do not fit into shared memory. With 300 and 700 rows, blocks process several rows.
const std::vector<Shape> kShapes = {{1, 2, 8},
                                    {7, 10, 16},
                                    {700, 1000, 1008},
                                    {5, 8192, 8192},
                                    {300, 50257, 50304},
                                    {3, 57344, 57344},
                                    {3, 57345, 57352},
                                    {270, 128255, 128256}};

std::string name_of(const Shape& shape) {
  return std::to_string(shape.rows) + " x " + std::to_string(shape.classes) + " of " +
         std::to_string(shape.stride);
}

torch::Tensor random_scores(const Shape& shape) {
  torch::Tensor scores = random_bf16({shape.rows, shape.stride}, 3);
  // Columns beyond the classes must be ignored.
  scores.narrow(1, shape.classes, shape.stride - shape.classes)
      .fill_(std::numeric_limits<float>::quiet_NaN());
  return scores;
}

torch::Tensor random_targets(const Shape& shape) {
  return torch::randint(shape.classes, {shape.rows}, on_gpu(torch::kInt64));
}

TEST(CrossEntropy, AgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const torch::Tensor scores = random_scores(shape);
    const torch::Tensor targets = random_targets(shape);
    if (shape.rows > 2) {
      targets[1] = shape.classes - 1;
      targets[2] = 0;
    }
    const double scale = 1.0 / 64;
    const torch::Tensor wide = scores.narrow(1, 0, shape.classes).to(torch::kFloat64);
    const torch::Tensor logs = torch::log_softmax(wide, 1);
    const torch::Tensor expected_losses = -logs.gather(1, targets.unsqueeze(1)).squeeze(1);
    const torch::Tensor hot = torch::zeros_like(wide).scatter_(1, targets.unsqueeze(1), 1.0);

    torch::Tensor first;
    for (int run = 0; run < 2; ++run) {
      const torch::Tensor result = scores.clone();
      const torch::Tensor losses = poison({shape.rows}, torch::kFloat32);
      cross_entropy({.losses = floats(losses),
                     .scores = bf16(result),
                     .targets = integers(targets),
                     .rows = shape.rows,
                     .classes = shape.classes,
                     .stride = shape.stride,
                     .scale = static_cast<float>(scale),
                     .gradient = true},
                    stream());
      expect_close(losses, expected_losses, 1e-5, 1e-5);
      const torch::Tensor expected = (logs.exp() - hot) * scale;
      // At the target, 1 is subtracted from a probability whose float32 error is about 1e-6.
      expect_within(result.narrow(1, 0, shape.classes),
                    expected,
                    expected.abs() * kBf16Bound + hot * (4e-6 * scale) + 1e-12);
      const int64_t padding = shape.stride - shape.classes;
      EXPECT_EQ(result.narrow(1, shape.classes, padding).count_nonzero().item<int64_t>(), 0);
      if (run == 0) {
        first = result;
      } else {
        EXPECT_TRUE(torch::equal(first, result));
      }
    }
  }
}

TEST(CrossEntropy, WithoutGradientLeavesTheScoresAlone) {
  LOCKSTEP_NEEDS_GPU();
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const torch::Tensor scores = random_scores(shape).nan_to_num(5.0);
    const torch::Tensor before = scores.clone();
    const torch::Tensor targets = random_targets(shape);
    const torch::Tensor losses = poison({shape.rows}, torch::kFloat32);
    cross_entropy({.losses = floats(losses),
                   .scores = bf16(scores),
                   .targets = integers(targets),
                   .rows = shape.rows,
                   .classes = shape.classes,
                   .stride = shape.stride},
                  stream());
    EXPECT_TRUE(torch::equal(scores, before));
    EXPECT_TRUE(losses.isfinite().all().item<bool>());
  }
}

TEST(CrossEntropy, ATargetBelowZeroIsNone) {
  LOCKSTEP_NEEDS_GPU();
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const torch::Tensor scores = random_scores(shape);
    const torch::Tensor targets = random_targets(shape);
    targets[0] = -100;
    const torch::Tensor losses = poison({shape.rows}, torch::kFloat32);
    cross_entropy({.losses = floats(losses),
                   .scores = bf16(scores),
                   .targets = integers(targets),
                   .rows = shape.rows,
                   .classes = shape.classes,
                   .stride = shape.stride,
                   .gradient = true},
                  stream());
    EXPECT_EQ(losses[0].item<float>(), 0);
    EXPECT_EQ(scores[0].count_nonzero().item<int64_t>(), 0);
  }
}

TEST(CrossEntropy, ATargetBeyondTheClassesMakesTheLossNaN) {
  LOCKSTEP_NEEDS_GPU();
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(name_of(shape));
    const torch::Tensor scores = random_scores(shape);
    const torch::Tensor targets = random_targets(shape);
    targets[0] = shape.classes;
    const torch::Tensor losses = torch::zeros({shape.rows}, on_gpu(torch::kFloat32));
    cross_entropy({.losses = floats(losses),
                   .scores = bf16(scores),
                   .targets = integers(targets),
                   .rows = shape.rows,
                   .classes = shape.classes,
                   .stride = shape.stride,
                   .gradient = true},
                  stream());
    EXPECT_TRUE(losses[0].isnan().item<bool>());
    EXPECT_EQ(losses.isnan().sum().item<int64_t>(), 1);
  }
}

TEST(CrossEntropy, NeedsNoPlaceForLosses) {
  LOCKSTEP_NEEDS_GPU();
  const Shape shape{3, 100, 104};
  const torch::Tensor scores = random_scores(shape);
  const torch::Tensor targets = random_targets(shape);
  cross_entropy({.scores = bf16(scores),
                 .targets = integers(targets),
                 .rows = shape.rows,
                 .classes = shape.classes,
                 .stride = shape.stride,
                 .gradient = true},
                stream());
  EXPECT_TRUE(scores.isfinite().all().item<bool>());
}

}  // namespace
}  // namespace lockstep::kernels
