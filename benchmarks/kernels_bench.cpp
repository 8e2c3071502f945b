// SPDX-License-Identifier: Apache-2.0
// Measures the memory bandwidth of the kernels of a GPT-2 step and of a ResNet-50 step, and the
// arithmetic throughput of their matrix products. Prints a table. Build it with `make bench` and
// run bench/kernels_bench in the build directory.

#include <c10/cuda/CUDACachingAllocator.h>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <torch/torch.h>
#include <tuple>
#include <vector>

#include "kernel_table.h"
#include "training/kernels/cross_entropy.h"
#include "training/kernels/elementwise.h"
#include "training/kernels/embedding.h"
#include "training/kernels/layer_norm.h"
#include "training/kernels/matmul.h"
#include "training/kernels/optimizer.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kRows = 65536;
constexpr int64_t kHidden = 768;
constexpr int64_t kLength = 1024;
constexpr int64_t kClasses = 50257;
constexpr int64_t kStride = 50304;

void bench_layer_norm(const Table& table) {
  const torch::Tensor input = random_bf16({kRows, kHidden});
  const torch::Tensor branch = random_bf16({kRows, kHidden});
  const torch::Tensor slope = random_bf16({kRows, kHidden});
  const torch::Tensor output = torch::empty_like(input);
  const torch::Tensor sum = torch::empty_like(input);
  const torch::Tensor weight = random_floats({kHidden});
  const torch::Tensor bias = random_floats({kHidden});
  const torch::Tensor mean = random_floats({kRows});
  const torch::Tensor rstd = random_floats({kRows});
  const torch::Tensor sums = random_floats({3, kHidden});
  const torch::Tensor workspace = workspace_of(layer_norm_workspace(kHidden));
  const auto matrix = static_cast<double>(input.nbytes());

  LayerNormForward forward{.output = bf16(output),
                           .mean = floats(mean),
                           .rstd = floats(rstd),
                           .input = bf16(input),
                           .weight = floats(weight),
                           .bias = floats(bias),
                           .rows = kRows,
                           .columns = kHidden};
  table.add("layer_norm_forward", 2 * matrix, [&] { layer_norm_forward(forward, stream()); });
  forward.sum = bf16(sum);
  forward.branch = bf16(branch);
  table.add(
      "layer_norm_forward, branch", 4 * matrix, [&] { layer_norm_forward(forward, stream()); });
  LayerNormBackward backward{.input_gradient = bf16(output),
                             .weight_gradient = floats(sums),
                             .bias_gradient = floats(sums) + kHidden,
                             .output_gradient = bf16(slope),
                             .input = bf16(input),
                             .mean = floats(mean),
                             .rstd = floats(rstd),
                             .weight = floats(weight),
                             .workspace = workspace.data_ptr(),
                             .rows = kRows,
                             .columns = kHidden};
  table.add("layer_norm_backward", 3 * matrix, [&] { layer_norm_backward(backward, stream()); });
  backward.residual = bf16(branch);
  table.add("layer_norm_backward, residual", 4 * matrix, [&] {
    layer_norm_backward(backward, stream());
  });
  backward.column_sum = floats(sums) + 2 * kHidden;
  table.add("layer_norm_backward, residual, column sum", 4 * matrix, [&] {
    layer_norm_backward(backward, stream());
  });
}

void bench_elementwise(const Table& table) {
  constexpr int64_t kWide = 4 * kHidden;
  const torch::Tensor input = random_bf16({kRows, kWide});
  const torch::Tensor before = random_bf16({kRows, kWide});
  const torch::Tensor output = torch::empty_like(input);
  const torch::Tensor bias = random_floats({kWide});
  const torch::Tensor sums = random_floats({kWide});
  const torch::Tensor workspace = workspace_of(column_sum_workspace(kWide));
  const auto matrix = static_cast<double>(input.nbytes());
  table.add("bias_gelu_forward 3072", 3 * matrix, [&] {
    bias_gelu_forward(
        bf16(output), bf16(before), bf16(input), floats(bias), kRows, kWide, stream());
  });
  table.add("gelu forward 3072, no bias", 2 * matrix, [&] {
    bias_gelu_forward(bf16(output), nullptr, bf16(input), nullptr, kRows, kWide, stream());
  });
  table.add("gelu_backward 3072", 3 * matrix, [&] {
    gelu_backward(bf16(output),
                  floats(sums),
                  bf16(input),
                  bf16(before),
                  workspace.data_ptr(),
                  kRows,
                  kWide,
                  stream());
  });
  for (const int64_t columns : {kHidden, 3 * kHidden, kWide}) {
    const std::string name = "column_sum " + std::to_string(columns);
    table.add(name.c_str(), matrix * static_cast<double>(columns) / kWide, [&] {
      column_sum(floats(sums), bf16(input), workspace.data_ptr(), kRows, columns, stream());
    });
  }
  table.add("join_columns 3 x 768", matrix * 1.5, [&] {
    const int64_t part = kRows * kHidden;
    const auto* from = input.data_ptr<at::BFloat16>();
    join_columns(bf16(output),
                 floats(sums),
                 reinterpret_cast<const Bf16*>(from),
                 reinterpret_cast<const Bf16*>(from + part),
                 reinterpret_cast<const Bf16*>(from + 2 * part),
                 workspace.data_ptr(),
                 kRows,
                 kHidden,
                 stream());
  });
}

void bench_cross_entropy(const Table& table) {
  constexpr int64_t kScoreRows = 16384;
  const torch::Tensor scores = random_bf16({kScoreRows, kStride});
  const torch::Tensor targets = torch::randint(kClasses, {kScoreRows}, on_gpu(torch::kInt64));
  const torch::Tensor losses = random_floats({kScoreRows});
  CrossEntropyCall call{.losses = floats(losses),
                        .scores = bf16(scores),
                        .targets = targets.data_ptr<int64_t>(),
                        .rows = kScoreRows,
                        .classes = kClasses,
                        .stride = kStride,
                        .scale = 1.0F / kScoreRows};
  const auto matrix = static_cast<double>(scores.nbytes());
  table.add("cross_entropy, loss", matrix, [&] { cross_entropy(call, stream()); });
  call.gradient = true;
  table.add("cross_entropy, loss and gradient", 2 * matrix, [&] { cross_entropy(call, stream()); });
}

void bench_embedding(const Table& table) {
  // Token frequencies of natural language (log-uniform): the most frequent token is about 4 %.
  const torch::Tensor tokens =
      (torch::rand({kRows}, on_gpu(torch::kFloat32)).mul(std::log(30000.0)).exp() - 1)
          .to(torch::kInt64);
  const torch::Tensor token_table = random_floats({kStride, kHidden});
  const torch::Tensor position_table = random_floats({kLength, kHidden});
  const torch::Tensor output = random_bf16({kRows, kHidden});
  torch::Tensor sorted;
  torch::Tensor order;
  std::tie(sorted, order) = tokens.sort(true, 0, false);
  const auto matrix = static_cast<double>(output.nbytes());
  const int64_t different = std::get<0>(torch::_unique(tokens)).numel();
  const double rows = 4.0 * kHidden * static_cast<double>(different);
  table.add("embedding_backward", matrix + 2 * rows, [&] {
    embedding_backward(floats(token_table),
                       bf16(output),
                       sorted.data_ptr<int64_t>(),
                       order.data_ptr<int64_t>(),
                       kRows,
                       kHidden,
                       stream());
  });
  table.add("position_backward", matrix, [&] {
    position_backward(floats(position_table), bf16(output), kRows, kLength, kHidden, stream());
  });
}

// Copies an array of trivially copyable entries to the GPU, as bytes.
template <typename Entry>
torch::Tensor upload(const std::vector<Entry>& entries) {
  const auto bytes = static_cast<int64_t>(entries.size() * sizeof(Entry));
  const torch::Tensor host = torch::empty({bytes}, torch::kUInt8);
  std::memcpy(host.data_ptr(), entries.data(), static_cast<size_t>(bytes));
  return host.to(torch::kCUDA);
}

void bench_optimizer(const Table& table) {
  // The parameter sizes of GPT-2 124M.
  std::vector<int64_t> sizes = {kStride * kHidden, kLength * kHidden, kHidden, kHidden};
  for (int layer = 0; layer < 12; ++layer) {
    for (const int64_t columns : {int64_t{3}, int64_t{1}, int64_t{4}, int64_t{4}}) {
      sizes.push_back(columns * kHidden * kHidden);
      sizes.push_back(columns * kHidden);
    }
    sizes.insert(sizes.end(), 4, kHidden);
  }
  std::vector<torch::Tensor> held;
  std::vector<UpdatedTensor> tensors;
  int64_t elements = 0;
  for (const int64_t size : sizes) {
    for (int i = 0; i < 4; ++i) {
      held.push_back(torch::rand({size}, on_gpu(torch::kFloat32)));
    }
    held.push_back(torch::empty({size}, on_gpu(torch::kBFloat16)));
    const torch::Tensor* last = held.data() + held.size() - 5;
    tensors.push_back({.parameter = floats(last[0]),
                       .gradient = floats(last[1]),
                       .first = floats(last[2]),
                       .second = floats(last[3]),
                       .copy = bf16(last[4]),
                       .count = size,
                       .begin = elements});
    elements += size;
  }
  const torch::Tensor on_device = upload(tensors);
  const torch::Tensor rates_bytes =
      upload(std::vector<Rates>{{.lr = 1e-4F, .beta1 = 0.9F, .beta2 = 0.95F, .epsilon = 1e-8F}});
  const auto* entries = reinterpret_cast<const UpdatedTensor*>(on_device.data_ptr());
  const auto* rates = reinterpret_cast<const Rates*>(rates_bytes.data_ptr());
  const auto count = static_cast<int>(tensors.size());
  const torch::Tensor sum = torch::zeros({1}, on_gpu(torch::kFloat64));
  const torch::Tensor workspace = workspace_of(square_sum_workspace());
  const auto number = static_cast<double>(elements);
  table.add("square_sum 124M", 4 * number, [&] {
    square_sum(
        sum.data_ptr<double>(), entries, count, elements, rates, workspace.data_ptr(), stream());
  });
  const Clip clip{.squares = sum.data_ptr<double>(), .max_norm = 1, .skip_if_not_finite = true};
  table.add("adamw_step 124M", 30 * number, [&] {
    adamw_step(entries, count, elements, rates, clip, false, stream());
  });
  table.add("sgd_step 124M, momentum", 22 * number, [&] {
    sgd_step(entries, count, elements, rates, clip, false, stream());
  });
}

struct Product {
  const char* name;
  int64_t m;
  int64_t n;
  int64_t k;
  bool left_transposed;
  bool right_transposed;
  bool float_output;
  Epilogue epilogue;
};

void bench_matmul() {
  constexpr int64_t h = kHidden;
  // Weights are [out, in]: forward uses them transposed, the input gradient uses them directly, and
  // the weight gradient is output_gradient^T x input.
  const std::vector<Product> products = {
      {"qkv", kRows, 3 * h, h, false, true, false, Epilogue::None},
      {"qkv, bias", kRows, 3 * h, h, false, true, false, Epilogue::Bias},
      {"projection, bias", kRows, h, h, false, true, false, Epilogue::Bias},
      {"mlp up", kRows, 4 * h, h, false, true, false, Epilogue::None},
      {"mlp up, bias", kRows, 4 * h, h, false, true, false, Epilogue::Bias},
      {"mlp up, bias and gelu", kRows, 4 * h, h, false, true, false, Epilogue::BiasGelu},
      {"mlp down, bias", kRows, h, 4 * h, false, true, false, Epilogue::Bias},
      {"scores (16384 rows)", 16384, kStride, h, false, true, false, Epilogue::None},
      {"input gradient of qkv", kRows, h, 3 * h, false, false, false, Epilogue::None},
      {"input gradient of projection", kRows, h, h, false, false, false, Epilogue::None},
      {"input gradient of mlp up", kRows, h, 4 * h, false, false, false, Epilogue::None},
      {"input gradient of mlp down", kRows, 4 * h, h, false, false, false, Epilogue::None},
      {"mlp down, gelu backward", kRows, 4 * h, h, false, false, false, Epilogue::GeluBackward},
      {"input gradient of scores", 16384, h, kStride, false, false, false, Epilogue::None},
      {"weight gradient of qkv", 3 * h, h, kRows, true, false, true, Epilogue::None},
      {"weight gradient of projection", h, h, kRows, true, false, true, Epilogue::None},
      {"weight gradient of mlp up", 4 * h, h, kRows, true, false, true, Epilogue::None},
      {"weight gradient of mlp down", h, 4 * h, kRows, true, false, true, Epilogue::None},
      {"weight gradient of scores", kStride, h, 16384, true, false, true, Epilogue::None}};
  Matmul matmul;
  std::printf("\n%-44s %24s %10s %8s\n", "product", "m, n, k", "us", "TFLOP/s");
  for (const Product& that : products) {
    const torch::Tensor left = random_bf16({that.m, that.k});
    const torch::Tensor right = random_bf16({that.k, that.n});
    const torch::Tensor bias = random_bf16({that.n});
    const torch::Tensor aux = random_bf16({that.m, that.n});
    const torch::Tensor output = torch::zeros(
        {that.m, that.n}, on_gpu(that.float_output ? torch::kFloat32 : torch::kBFloat16));
    MatmulCall call{.output = output.data_ptr(),
                    .float_output = that.float_output,
                    .left = bf16(left),
                    .right = bf16(right),
                    .left_transposed = that.left_transposed,
                    .right_transposed = that.right_transposed,
                    .m = that.m,
                    .n = that.n,
                    .k = that.k,
                    .epilogue = that.epilogue,
                    .bias = bf16(bias),
                    .aux = bf16(aux)};
    for (const bool accumulate : {false, true}) {
      if (accumulate && !that.float_output) {
        continue;
      }
      call.accumulate = accumulate;
      const double taken = time_of([&] { matmul.run(call, stream()); });
      print_product(
          std::string(that.name) + (accumulate ? ", added" : ""), that.m, that.n, that.k, taken);
    }
  }
}

void bench_all() {
  {
    const Table table;
    bench_layer_norm(table);
    bench_elementwise(table);
    bench_cross_entropy(table);
    bench_embedding(table);
    bench_optimizer(table);
    bench_fp8(table);
    bench_resnet(table);
  }
  c10::cuda::CUDACachingAllocator::emptyCache();
  bench_matmul();
  bench_fp8_products();
}

}  // namespace
}  // namespace lockstep::kernels

int main() {
  if (!torch::cuda::is_available()) {
    std::fputs("kernels_bench: this machine has no GPU\n", stderr);
    return 69;
  }
  lockstep::kernels::bench_all();
  return 0;
}
