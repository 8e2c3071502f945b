// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/batch_norm.h"

#include <limits>
#include <tuple>

#include "lockstep/error.h"
#include "training/kernels/stem.h"
#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

constexpr double kEpsilon = 1e-5;
constexpr double kMomentum = 0.1;

// Numbers of rows: fewer than one block processes, odd numbers, and several rows per thread.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {2, 64}, {33, 128}, {1009, 64}, {12544, 2048}, {50176, 256}, {200704, 64}, {3137, 512}};

// The counters at the start are zero, the rest is poisoned.
torch::Tensor norm_workspace() {
  torch::Tensor workspace = workspace_of(batch_norm_workspace());
  workspace.narrow(0, 0, kNormCounters).zero_();
  return workspace;
}

struct Norm {
  torch::Tensor input;
  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor values;  // mean, rstd, scale, shift
  torch::Tensor running_mean;
  torch::Tensor running_variance;
  torch::Tensor batches;

  NormValues rows() const {
    const int64_t channels = values.size(1);
    float* first = floats(values);
    return {first, first + channels, first + 2 * channels, first + 3 * channels};
  }
};

Norm make_norm(int64_t rows, int64_t channels, double middle = 0.5) {
  return {.input = random_bf16({rows, channels}, 2, middle),
          .weight = random_floats({channels}),
          .bias = random_floats({channels}),
          .values = poison({4, channels}, torch::kFloat32),
          .running_mean = random_floats({channels}),
          .running_variance = random_floats({channels}).abs(),
          .batches = torch::full({}, 6, on_gpu(torch::kInt64))};
}

void find_statistics(const Norm& norm, const torch::Tensor& workspace) {
  batch_norm_statistics({.values = norm.rows(),
                         .running_mean = floats(norm.running_mean),
                         .running_variance = floats(norm.running_variance),
                         .batches = integers(norm.batches),
                         .input = bf16(norm.input),
                         .weight = floats(norm.weight),
                         .bias = floats(norm.bias),
                         .workspace = workspace.data_ptr(),
                         .rows = norm.input.size(0),
                         .channels = norm.input.size(1),
                         .momentum = static_cast<float>(kMomentum),
                         .epsilon = static_cast<float>(kEpsilon)},
                        stream());
}

// (input - mean) / deviation * weight + bias in float64.
torch::Tensor normalise(const torch::Tensor& input,
                        const torch::Tensor& weight,
                        const torch::Tensor& bias) {
  const torch::Tensor middle = input.mean(0);
  const torch::Tensor variance = (input - middle).square().mean(0);
  return (input - middle) * (variance + kEpsilon).rsqrt() * weight + bias;
}

torch::Tensor wide(const torch::Tensor& tensor) {
  return tensor.to(torch::kFloat64);
}

TEST(BatchNormStatistics, AreThoseOfTheBatchAndMoveTheAverages) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor workspace = norm_workspace();
  for (const auto& [rows, channels] : kShapes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels));
    const Norm norm = make_norm(rows, channels);
    const torch::Tensor old_mean = wide(norm.running_mean);
    const torch::Tensor old_variance = wide(norm.running_variance);
    find_statistics(norm, workspace);
    const torch::Tensor input = wide(norm.input);
    const torch::Tensor mean = input.mean(0);
    const torch::Tensor variance = (input - mean).square().mean(0);
    const torch::Tensor rstd = (variance + kEpsilon).rsqrt();
    expect_close(norm.values[0], mean, 1e-5, 1e-5);
    expect_close(norm.values[1], rstd, 1e-5, 0);
    const torch::Tensor scale = wide(norm.weight) * rstd;
    expect_close(norm.values[2], scale, 2e-5, 1e-7);
    expect_close(norm.values[3], wide(norm.bias) - mean * scale, 1e-4, 1e-4);
    const double count = static_cast<double>(rows);
    expect_close(norm.running_mean, old_mean + kMomentum * (mean - old_mean), 1e-5, 1e-5);
    expect_close(norm.running_variance,
                 old_variance + kMomentum * (variance * count / (count - 1) - old_variance),
                 1e-5,
                 1e-5);
    EXPECT_EQ(norm.batches.item<int64_t>(), 7);
    const torch::Tensor before = norm.values.clone();
    find_statistics(norm, workspace);
    EXPECT_TRUE(torch::equal(before, norm.values)) << "the same bits again";
  }
}

struct Case {
  bool has_addend = false;
  bool is_addend_normed = false;
};
const std::vector<Case> kCases = {{false, false}, {true, false}, {true, true}};

TEST(BatchNorm, AgreesWithFloat64AutogradForwardAndBackward) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor workspace = norm_workspace();
  for (const auto& [rows, channels] : kShapes) {
    for (const Case& each : kCases) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels) +
                   (each.is_addend_normed ? ", normed addend"
                    : each.has_addend     ? ", addend"
                                          : ""));
      const Norm main = make_norm(rows, channels);
      const Norm other = make_norm(rows, channels, -0.3);
      find_statistics(main, workspace);
      find_statistics(other, workspace);
      const torch::Tensor output = poison({rows, channels}, torch::kBFloat16);
      const torch::Tensor mask = torch::full({rows, channels / 8}, 170, on_gpu(torch::kUInt8));
      NormForward forward{.output = bf16(output),
                          .mask = each.has_addend ? mask.data_ptr<uint8_t>() : nullptr,
                          .input = bf16(main.input),
                          .values = main.rows(),
                          .rows = rows,
                          .channels = channels};
      if (each.has_addend) {
        forward.addend = bf16(other.input);
      }
      if (each.is_addend_normed) {
        forward.addend_values = other.rows();
      }
      batch_norm_forward(forward, stream());

      std::vector<torch::Tensor> leaves;
      for (const torch::Tensor& tensor :
           {main.input, main.weight, main.bias, other.input, other.weight, other.bias}) {
        leaves.push_back(wide(tensor).requires_grad_());
      }
      torch::Tensor sum = normalise(leaves[0], leaves[1], leaves[2]);
      if (each.is_addend_normed) {
        sum = sum + normalise(leaves[3], leaves[4], leaves[5]);
      } else if (each.has_addend) {
        sum = sum + leaves[3];
      }
      const torch::Tensor expected = torch::relu(sum);
      expect_close(output, expected.detach(), kBf16Bound, 5e-5);

      const torch::Tensor slope = random_bf16({rows, channels});
      // Near zero, rounding decides the sign that ReLU sees, so such elements are excluded.
      const torch::Tensor is_clear = sum.detach().abs() > 1e-4;
      const torch::Tensor clear_slope = (slope * is_clear).contiguous();
      expected.backward(wide(clear_slope));

      std::vector<torch::Tensor> results;
      const auto back = [&](const Norm& norm) {
        const size_t first = results.size();
        results.push_back(poison({rows, channels}, torch::kBFloat16));
        results.push_back(poison({channels}, torch::kFloat32));
        results.push_back(poison({channels}, torch::kFloat32));
        results.push_back(poison({3, channels}, torch::kFloat32));
        return NormBack{.input = bf16(norm.input),
                        .values = norm.rows(),
                        .weight_gradient = floats(results[first + 1]),
                        .bias_gradient = floats(results[first + 2]),
                        .factors = floats(results[first + 3]),
                        .input_gradient = bf16(results[first])};
      };
      const torch::Tensor masked = poison({rows, channels}, torch::kBFloat16);
      NormBackward backward{.gradient = bf16(clear_slope),
                            .mask = each.has_addend ? mask.data_ptr<uint8_t>() : nullptr,
                            .main = back(main),
                            .workspace = workspace.data_ptr(),
                            .rows = rows,
                            .channels = channels};
      if (each.is_addend_normed) {
        backward.shortcut = back(other);
      } else if (each.has_addend) {
        backward.masked = bf16(masked);
      }
      batch_norm_backward(backward, stream());
      const auto expect_back = [&](size_t first, size_t leaf) {
        // The absolute bound: two sums over all rows are subtracted from each gradient.
        const torch::Tensor size = leaves[leaf].grad().abs().max();
        expect_within(results[first],
                      leaves[leaf].grad(),
                      leaves[leaf].grad().abs() * kBf16Bound + size * 1e-4 + 1e-6);
        const torch::Tensor terms = wide(clear_slope).abs().sum(0);
        expect_within(results[first + 1], leaves[leaf + 1].grad(), terms * 1e-4 + 1e-5);
        expect_within(results[first + 2], leaves[leaf + 2].grad(), terms * kSumBound + 1e-6);
      };
      expect_back(0, 0);
      if (each.is_addend_normed) {
        expect_back(4, 3);
      } else if (each.has_addend) {
        EXPECT_TRUE(torch::equal(wide(masked), leaves[3].grad()));
      }
    }
  }
}

TEST(BatchNorm, LetsWhatIsNoNumberThrough) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor workspace = norm_workspace();
  const Norm norm = make_norm(100, 64);
  norm.input[7][3] = std::numeric_limits<float>::quiet_NaN();
  find_statistics(norm, workspace);
  EXPECT_TRUE(norm.values[0][3].isnan().item<bool>());
  EXPECT_TRUE(norm.values[1][3].isnan().item<bool>());
  EXPECT_FALSE(norm.values.narrow(1, 4, 60).isnan().any().item<bool>());
  const torch::Tensor output = poison({100, 64}, torch::kBFloat16);
  batch_norm_forward({.output = bf16(output),
                      .input = bf16(norm.input),
                      .values = norm.rows(),
                      .rows = 100,
                      .channels = 64},
                     stream());
  EXPECT_EQ(output.isnan().sum().item<int64_t>(), 100) << "all of that channel, and nothing else";
  const torch::Tensor pooled = torch::zeros({1, 5, 5, 64}, on_gpu(torch::kBFloat16));
  const torch::Tensor choice = torch::zeros({pooled.numel()}, on_gpu(torch::kUInt8));
  pool_forward({.output = bf16(pooled),
                .choice = choice.data_ptr<uint8_t>(),
                .input = bf16(norm.input),
                .values = norm.rows(),
                .images = 1,
                .height = 10,
                .width = 10,
                .channels = 64},
               stream());
  EXPECT_EQ(pooled.isnan().sum().item<int64_t>(), 25);
}

TEST(BatchNormStatistics, DoNotLoseALargeMean) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor workspace = norm_workspace();
  const Norm norm = make_norm(50176, 64, /*middle=*/100);
  find_statistics(norm, workspace);
  const torch::Tensor input = wide(norm.input);
  const torch::Tensor mean = input.mean(0);
  expect_close(norm.values[0], mean, 1e-6, 0);
  expect_close(norm.values[1], ((input - mean).square().mean(0) + kEpsilon).rsqrt(), 1e-3, 0);
}

TEST(BatchNorm, DoesNotTakeChannelsThatDoNotFit) {
  LOCKSTEP_NEEDS_GPU();
  EXPECT_THROW(batch_norm_forward({.rows = 4, .channels = 96}, stream()), Error);
  EXPECT_THROW(batch_norm_statistics({.rows = 4, .channels = 8}, stream()), Error);
  EXPECT_THROW(batch_norm_backward({.rows = 0, .channels = 64}, stream()), Error);
}

// Converts [N, height, width, channels] to [N, channels, height, width].
torch::Tensor as_planes(const torch::Tensor& pixels) {
  return pixels.permute({0, 3, 1, 2});
}

TEST(Pooling, AgreesWithFloat64AutogradThroughNormAndReLU) {
  LOCKSTEP_NEEDS_GPU();
  const torch::Tensor workspace = norm_workspace();
  for (const auto& [images, height, width, channels] :
       std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>>{
           {1, 2, 2, 64}, {3, 8, 6, 64}, {5, 28, 30, 128}, {16, 112, 112, 64}}) {
    SCOPED_TRACE(std::to_string(images) + " x " + std::to_string(height));
    const int64_t rows = images * height * width;
    const Norm norm = make_norm(rows, channels);
    find_statistics(norm, workspace);
    const torch::Tensor output =
        poison({images, height / 2, width / 2, channels}, torch::kBFloat16);
    const torch::Tensor choice = torch::full({output.numel()}, 99, on_gpu(torch::kUInt8));
    pool_forward({.output = bf16(output),
                  .choice = choice.data_ptr<uint8_t>(),
                  .input = bf16(norm.input),
                  .values = norm.rows(),
                  .images = images,
                  .height = static_cast<int>(height),
                  .width = static_cast<int>(width),
                  .channels = channels},
                 stream());
    const torch::Tensor input = wide(norm.input).requires_grad_();
    const torch::Tensor weight = wide(norm.weight).requires_grad_();
    const torch::Tensor bias = wide(norm.bias).requires_grad_();
    const torch::Tensor normed =
        torch::relu(normalise(input, weight, bias)).view({images, height, width, channels});
    const torch::Tensor expected = torch::max_pool2d(as_planes(normed), 3, 2, 1);
    expect_close(as_planes(output), expected.detach(), kBf16Bound, 5e-5);

    // If values in a window are equal in float32, the kernel may choose another maximum than the
    // reference.
    const torch::Tensor slope = random_bf16({images, height / 2, width / 2, channels});
    expected.backward(as_planes(wide(slope)));
    const torch::Tensor gradient = poison({rows, channels}, torch::kBFloat16);
    const torch::Tensor weight_gradient = poison({channels}, torch::kFloat32);
    const torch::Tensor bias_gradient = poison({channels}, torch::kFloat32);
    const torch::Tensor factors = poison({3, channels}, torch::kFloat32);
    batch_norm_backward({.gradient = bf16(slope),
                         .pooling = {.choice = choice.data_ptr<uint8_t>(),
                                     .height = static_cast<int>(height),
                                     .width = static_cast<int>(width)},
                         .main = {.input = bf16(norm.input),
                                  .values = norm.rows(),
                                  .weight_gradient = floats(weight_gradient),
                                  .bias_gradient = floats(bias_gradient),
                                  .factors = floats(factors),
                                  .input_gradient = bf16(gradient)},
                         .workspace = workspace.data_ptr(),
                         .rows = rows,
                         .channels = channels},
                        stream());
    const torch::Tensor size = input.grad().abs().max();
    const torch::Tensor error = (wide(gradient) - input.grad()).abs();
    const torch::Tensor is_far = error > input.grad().abs() * kBf16Bound + size * 2e-3;
    // Inputs with 8 bits are often equal, and the kernel may have chosen another maximum.
    EXPECT_LE(is_far.to(torch::kFloat64).mean().item<double>(), 0.05);
    const torch::Tensor terms = wide(slope).abs().sum({0, 1, 2});
    expect_within(bias_gradient, bias.grad(), terms * 1e-4 + 1e-5);
    expect_within(weight_gradient, weight.grad(), terms * 2e-3 + 1e-4);
  }
}

TEST(StemInput, IsNormalisedAndArranged) {
  LOCKSTEP_NEEDS_GPU();
  const int64_t images = 3;
  const int64_t height = 12;
  const int64_t width = 20;
  for (const bool are_bytes : {true, false}) {
    for (const bool is_pixel_by_pixel : {true, false}) {
      torch::Tensor given =
          are_bytes ? torch::randint(0, 256, {images, 3, height, width}, on_gpu(torch::kUInt8))
                    : random_floats({images, 3, height, width});
      if (is_pixel_by_pixel) {
        given = given.contiguous(torch::MemoryFormat::ChannelsLast);
      }
      const torch::Tensor cells =
          poison({images, height / 2 + 3, width / 2 + 3, kCellChannels}, torch::kBFloat16);
      const torch::Tensor patches =
          poison({images, height, width, kPatchChannels}, torch::kBFloat16);
      StemInput call{.output = bf16(cells),
                     .stride_image = given.stride(0),
                     .stride_colour = given.stride(1),
                     .stride_row = given.stride(2),
                     .stride_column = given.stride(3),
                     .images = images,
                     .height = static_cast<int>(height),
                     .width = static_cast<int>(width),
                     .scale = {0.1F, 0.2F, 0.3F},
                     .shift = {-1, 0, 1}};
      if (are_bytes) {
        call.bytes = given.data_ptr<uint8_t>();
      } else {
        call.floats = floats(given);
      }
      image_cells(call, stream());
      call.output = bf16(patches);
      image_patches(call, stream());
      const torch::Tensor scale =
          torch::tensor({0.1, 0.2, 0.3}, on_gpu(torch::kFloat64)).view({3, 1, 1});
      const torch::Tensor shift =
          torch::tensor({-1.0, 0.0, 1.0}, on_gpu(torch::kFloat64)).view({3, 1, 1});
      const torch::Tensor normalised = wide(given) * scale + shift;
      const torch::Tensor padded = torch::constant_pad_nd(normalised, {4, 2, 4, 2});
      const torch::Tensor expected = padded.view({images, 3, height / 2 + 3, 2, width / 2 + 3, 2})
                                         .permute({0, 2, 4, 3, 5, 1})
                                         .reshape({images, height / 2 + 3, width / 2 + 3, 12});
      expect_close(cells.narrow(3, 0, 12), expected, kBf16Bound, 1e-5);
      EXPECT_EQ(cells.narrow(3, 12, 4).abs().sum().item<double>(), 0);

      // im2col orders its rows (colour, row, column).
      const torch::Tensor columns = torch::im2col(normalised, {3, 3}, {1, 1}, {1, 1}, {1, 1})
                                        .view({images, 3, 3, 3, height, width})
                                        .permute({0, 4, 5, 2, 3, 1})
                                        .reshape({images, height, width, 27});
      expect_close(patches.narrow(3, 0, 27), columns, kBf16Bound, 1e-5);
      EXPECT_EQ(patches.narrow(3, 27, 5).abs().sum().item<double>(), 0);
    }
  }
}

}  // namespace
}  // namespace lockstep::kernels
