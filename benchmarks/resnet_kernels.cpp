// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "kernel_table.h"
#include "training/kernels/batch_norm.h"
#include "training/kernels/class_head.h"
#include "training/kernels/stem.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kImages = 256;

NormValues rows_of(const torch::Tensor& values) {
  const int64_t channels = values.size(1);
  float* first = floats(values);
  return {first, first + channels, first + 2 * channels, first + 3 * channels};
}

// Activations [kImages x side x side, channels], as between the convolutions of ResNet-50.
void bench_norm(const Table& table, int64_t side, int64_t channels) {
  const int64_t rows = kImages * side * side;
  const std::string shape = std::to_string(side) + "^2 x " + std::to_string(channels);
  const torch::Tensor input = random_bf16({rows, channels});
  const torch::Tensor addend = random_bf16({rows, channels});
  const torch::Tensor slope = random_bf16({rows, channels});
  const torch::Tensor output = torch::empty_like(input);
  const torch::Tensor other = torch::empty_like(input);
  const torch::Tensor mask = torch::zeros({rows, channels / 8}, on_gpu(torch::kUInt8));
  const torch::Tensor weight = random_floats({channels});
  const torch::Tensor values = random_floats({4, channels});
  const torch::Tensor running = random_floats({2, channels});
  const torch::Tensor sums = random_floats({10, channels});
  const torch::Tensor workspace = torch::zeros({batch_norm_workspace()}, on_gpu(torch::kUInt8));
  const auto matrix = static_cast<double>(input.nbytes());

  const NormStatistics statistics{.values = rows_of(values),
                                  .running_mean = floats(running),
                                  .running_variance = floats(running) + channels,
                                  .input = bf16(input),
                                  .weight = floats(weight),
                                  .bias = floats(weight),
                                  .workspace = workspace.data_ptr(),
                                  .rows = rows,
                                  .channels = channels};
  table.add(("norm statistics " + shape).c_str(), matrix, [&] {
    batch_norm_statistics(statistics, stream());
  });
  NormForward forward{.output = bf16(output),
                      .input = bf16(input),
                      .values = rows_of(values),
                      .rows = rows,
                      .channels = channels};
  table.add(
      ("norm, relu " + shape).c_str(), 2 * matrix, [&] { batch_norm_forward(forward, stream()); });
  forward.mask = mask.data_ptr<uint8_t>();
  forward.addend = bf16(addend);
  table.add(("norm, add, relu, mask " + shape).c_str(), 3.0625 * matrix, [&] {
    batch_norm_forward(forward, stream());
  });
  const auto back = [&](const torch::Tensor& from, const torch::Tensor& to, int64_t row) {
    float* first = floats(sums) + row * channels;
    return NormBack{.input = bf16(from),
                    .values = rows_of(values),
                    .weight_gradient = first,
                    .bias_gradient = first + channels,
                    .factors = first + 2 * channels,
                    .input_gradient = bf16(to)};
  };
  NormBackward backward{.gradient = bf16(slope),
                        .main = back(input, output, 0),
                        .workspace = workspace.data_ptr(),
                        .rows = rows,
                        .channels = channels};
  table.add(("norm backward " + shape).c_str(), 5 * matrix, [&] {
    batch_norm_backward(backward, stream());
  });
  backward.mask = mask.data_ptr<uint8_t>();
  backward.masked = bf16(other);
  table.add(("norm backward, mask " + shape).c_str(), 6.125 * matrix, [&] {
    batch_norm_backward(backward, stream());
  });
  backward.masked = nullptr;
  backward.shortcut = back(addend, other, 5);
  table.add(("norm backward, mask, shortcut " + shape).c_str(), 8.125 * matrix, [&] {
    batch_norm_backward(backward, stream());
  });
}

void bench_stem(const Table& table) {
  constexpr int kSide = 224;
  constexpr int64_t kChannels = 64;
  const torch::Tensor images =
      torch::randint(0, 256, {kImages, kSide, kSide, 3}, on_gpu(torch::kUInt8));
  const torch::Tensor cells = random_bf16({kImages, kSide / 2 + 3, kSide / 2 + 3, kCellChannels});
  const StemInput cut{.output = bf16(cells),
                      .bytes = images.data_ptr<uint8_t>(),
                      .stride_image = images.stride(0),
                      .stride_colour = images.stride(3),
                      .stride_row = images.stride(1),
                      .stride_column = images.stride(2),
                      .images = kImages,
                      .height = kSide,
                      .width = kSide};
  table.add("image cells, 224^2", static_cast<double>(images.nbytes() + cells.nbytes()), [&] {
    image_cells(cut, stream());
  });
  // As many pixels as in 256 images of TinyImageNet.
  constexpr int kSmall = 64;
  const torch::Tensor patches = random_bf16({kImages, kSmall, kSmall, kPatchChannels});
  StemInput small_cut = cut;
  small_cut.output = bf16(patches);
  small_cut.height = kSmall;
  small_cut.width = kSmall;
  table.add("image patches, 64^2",
            static_cast<double>(kImages * kSmall * kSmall * 3 + patches.nbytes()),
            [&] { image_patches(small_cut, stream()); });
  constexpr int kHalf = kSide / 2;
  const torch::Tensor features = random_bf16({kImages, kHalf, kHalf, kChannels});
  const torch::Tensor gradient = torch::empty_like(features);
  const torch::Tensor pooled = random_bf16({kImages, kHalf / 2, kHalf / 2, kChannels});
  const torch::Tensor choice = torch::zeros({pooled.numel()}, on_gpu(torch::kUInt8));
  const torch::Tensor values = random_floats({4, kChannels});
  const torch::Tensor sums = random_floats({5, kChannels});
  const torch::Tensor workspace = torch::zeros({batch_norm_workspace()}, on_gpu(torch::kUInt8));
  const PoolForward pool{.output = bf16(pooled),
                         .choice = choice.data_ptr<uint8_t>(),
                         .input = bf16(features),
                         .values = rows_of(values),
                         .images = kImages,
                         .height = kHalf,
                         .width = kHalf,
                         .channels = kChannels};
  const auto large = static_cast<double>(features.nbytes());
  const double small = large / 4;
  table.add(
      "norm, relu, pool 112^2 x 64", large + 1.5 * small, [&] { pool_forward(pool, stream()); });
  const NormBackward backward{
      .gradient = bf16(pooled),
      .pooling = {.choice = choice.data_ptr<uint8_t>(), .height = kHalf, .width = kHalf},
      .main = {.input = bf16(features),
               .values = rows_of(values),
               .weight_gradient = floats(sums),
               .bias_gradient = floats(sums) + kChannels,
               .factors = floats(sums) + 2 * kChannels,
               .input_gradient = bf16(gradient)},
      .workspace = workspace.data_ptr(),
      .rows = kImages * kHalf * kHalf,
      .channels = kChannels};
  table.add("pool, norm backward 112^2 x 64", 3 * large + 3 * small, [&] {
    batch_norm_backward(backward, stream());
  });
}

void bench_head(const Table& table) {
  constexpr int64_t kPixels = 49;
  constexpr int64_t kChannels = 2048;
  constexpr int64_t kClasses = 1000;
  const torch::Tensor features = random_bf16({kImages, kPixels, kChannels});
  const torch::Tensor mean = random_bf16({kImages, kChannels});
  const auto bytes = static_cast<double>(features.nbytes() + mean.nbytes());
  const PixelMean forward{.output = bf16(mean),
                          .input = bf16(features),
                          .images = kImages,
                          .pixels = kPixels,
                          .channels = kChannels};
  table.add("mean over pixels, 7^2 x 2048", bytes, [&] { pixel_mean(forward, stream()); });
  const PixelMeanBackward backward{.output = bf16(features),
                                   .gradient = bf16(mean),
                                   .images = kImages,
                                   .pixels = kPixels,
                                   .channels = kChannels};
  table.add("mean over pixels, backward", bytes, [&] { pixel_mean_backward(backward, stream()); });

  const torch::Tensor scores = random_bf16({kImages, kClasses});
  const torch::Tensor gradient = torch::empty_like(scores);
  const torch::Tensor targets = torch::randint(kClasses, {kImages}, on_gpu(torch::kInt64));
  const torch::Tensor losses = random_floats({2, kImages});
  const torch::Tensor mean_loss = random_floats({2});
  const torch::Tensor factor = torch::ones({}, on_gpu(torch::kFloat32));
  const auto matrix = static_cast<double>(scores.nbytes());
  const ClassEntropy entropy{.loss = floats(mean_loss),
                             .share = floats(mean_loss) + 1,
                             .losses = floats(losses),
                             .log_sum_exp = floats(losses) + kImages,
                             .scores = bf16(scores),
                             .targets = targets.data_ptr<int64_t>(),
                             .rows = kImages,
                             .classes = kClasses,
                             .smoothing = 0.1F};
  table.add("class entropy, 1000 classes", matrix, [&] { class_entropy(entropy, stream()); });
  const ClassEntropyBackward slope{.gradient = bf16(gradient),
                                   .factor = floats(factor),
                                   .share = floats(mean_loss) + 1,
                                   .log_sum_exp = floats(losses) + kImages,
                                   .scores = bf16(scores),
                                   .targets = targets.data_ptr<int64_t>(),
                                   .rows = kImages,
                                   .classes = kClasses,
                                   .smoothing = 0.1F};
  table.add(
      "class entropy, backward", 2 * matrix, [&] { class_entropy_backward(slope, stream()); });
}

}  // namespace

void bench_resnet(const Table& table) {
  bench_head(table);
  bench_stem(table);
  for (const auto& [side, channels] : std::vector<std::pair<int64_t, int64_t>>{
           {56, 64}, {56, 256}, {28, 128}, {28, 512}, {14, 256}, {14, 1024}, {7, 512}, {7, 2048}}) {
    bench_norm(table, side, channels);
  }
}

}  // namespace lockstep::kernels
