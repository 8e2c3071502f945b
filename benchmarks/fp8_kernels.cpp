// SPDX-License-Identifier: Apache-2.0
// Measures the kernels and matrix products of GPT-2 124M in fp8.

#include <string>

#include "kernel_table.h"
#include "lockstep/error.h"
#include "training/kernels/fp8.h"
#include "training/kernels/layer_norm.h"
#include "training/kernels/matmul.h"

namespace lockstep::kernels {
namespace {

constexpr int64_t kRows = 65536;
constexpr int64_t kHidden = 768;
constexpr int64_t kWide = 4 * kHidden;

torch::Tensor bytes(int64_t rows, int64_t columns) {
  return torch::empty({rows, columns}, on_gpu(torch::kUInt8));
}

Fp8* fp8(const torch::Tensor& tensor) {
  return reinterpret_cast<Fp8*>(tensor.data_ptr());
}

// A scale of 1 and a history, on the GPU.
struct Slot {
  torch::Tensor scale = torch::ones({8}, on_gpu(torch::kFloat32));
  torch::Tensor history = torch::zeros({4}, on_gpu(torch::kFloat32));

  Fp8Output output(const torch::Tensor& plain,
                   const torch::Tensor& transposed,
                   Fp8Type type) const {
    return {.plain = fp8(plain),
            .transposed = fp8(transposed),
            .type = type,
            .scale = reinterpret_cast<const Fp8Scale*>(scale.data_ptr()),
            .history = reinterpret_cast<Fp8History*>(history.data_ptr())};
  }
};

void bench_norm(const Table& table, const Slot& slot) {
  const torch::Tensor input = random_bf16({kRows, kHidden});
  const torch::Tensor plain = bytes(kRows, kHidden);
  const torch::Tensor transposed = bytes(kHidden, kRows);
  const torch::Tensor weight = random_floats({kHidden});
  const torch::Tensor bias = random_floats({kHidden});
  const torch::Tensor sums = random_floats({kHidden});
  const torch::Tensor mean = random_floats({kRows});
  const torch::Tensor rstd = random_floats({kRows});
  const torch::Tensor workspace = workspace_of(fp8_workspace(kHidden));
  const auto matrix = static_cast<double>(plain.nbytes());
  const Fp8Output output = slot.output(plain, transposed, Fp8Type::E4m3);
  const LayerNormForward forward{.fp8 = output.plain,
                                 .scale = output.scale,
                                 .history = output.history,
                                 .mean = floats(mean),
                                 .rstd = floats(rstd),
                                 .input = bf16(input),
                                 .weight = floats(weight),
                                 .bias = floats(bias),
                                 .rows = kRows,
                                 .columns = kHidden};
  table.add("fp8 layer_norm_forward", 3 * matrix, [&] { layer_norm_forward(forward, stream()); });
  table.add("fp8 transpose 768", 2 * matrix, [&] {
    transpose_fp8(output.transposed, output.plain, kRows, kHidden, stream());
  });
  table.add("fp8 cast and transpose 768", 4 * matrix, [&] {
    cast_to_fp8(output, nullptr, bf16(input), nullptr, kRows, kHidden, stream());
  });
  table.add("fp8 cast, transpose and column sum 768", 4 * matrix, [&] {
    cast_to_fp8(output, floats(sums), bf16(input), workspace.data_ptr(), kRows, kHidden, stream());
  });
  const torch::Tensor weights = random_bf16({kHidden, kWide});
  const torch::Tensor cast_weights = bytes(kHidden, kWide);
  const torch::Tensor turned_weights = bytes(kWide, kHidden);
  table.add("fp8 cast and transpose a weight, 768 x 3072",
            4 * static_cast<double>(cast_weights.nbytes()),
            [&] {
              cast_to_fp8(slot.output(cast_weights, turned_weights, Fp8Type::E4m3),
                          nullptr,
                          bf16(weights),
                          nullptr,
                          kHidden,
                          kWide,
                          stream());
            });
}

void bench_wide(const Table& table, const Slot& slot) {
  const torch::Tensor product = random_bf16({kRows, kWide});
  const torch::Tensor dy = random_bf16({kRows, kWide});
  const torch::Tensor plain = bytes(kRows, kWide);
  const torch::Tensor transposed = bytes(kWide, kRows);
  const torch::Tensor bias = random_floats({kWide});
  const torch::Tensor sums = random_floats({kWide});
  const torch::Tensor workspace = workspace_of(fp8_workspace(kWide));
  const auto matrix = static_cast<double>(plain.nbytes());
  table.add("fp8 gelu and transpose 3072", 4 * matrix, [&] {
    gelu_to_fp8(slot.output(plain, transposed, Fp8Type::E4m3),
                bf16(product),
                floats(bias),
                kRows,
                kWide,
                stream());
  });
  table.add("fp8 gelu_backward, transpose, column sum 3072", 6 * matrix, [&] {
    gelu_backward_to_fp8(slot.output(plain, transposed, Fp8Type::E5m2),
                         floats(sums),
                         bf16(dy),
                         bf16(product),
                         floats(bias),
                         workspace.data_ptr(),
                         kRows,
                         kWide,
                         stream());
  });
  const auto* from = dy.data_ptr<at::BFloat16>();
  const int64_t part = kRows * kHidden;
  table.add("fp8 join, transpose, column sum 3 x 768", 4 * matrix * 0.75, [&] {
    join_to_fp8(slot.output(plain, transposed, Fp8Type::E5m2),
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

struct Product {
  const char* name;
  int64_t m;
  int64_t n;
  int64_t k;
  OperandType left;
  OperandType right;
  bool fast;
  bool float_output;
  Epilogue epilogue = Epilogue::None;
  bool adds = false;
};

torch::Tensor random_operand(int64_t rows, int64_t columns, OperandType type) {
  const auto kind = type == OperandType::E4m3 ? torch::kFloat8_e4m3fn : torch::kFloat8_e5m2;
  torch::Tensor all = bytes(rows, columns);
  constexpr int64_t kPiece = 4096;
  for (int64_t begin = 0; begin < rows; begin += kPiece) {
    const int64_t count = std::min(kPiece, rows - begin);
    all.narrow(0, begin, count).copy_(random_bf16({count, columns}).to(kind).view(torch::kUInt8));
  }
  return all;
}

}  // namespace

void bench_fp8(const Table& table) {
  const Slot slot;
  bench_norm(table, slot);
  bench_wide(table, slot);
}

void bench_fp8_products() {
  constexpr int64_t h = kHidden;
  constexpr auto e4m3 = OperandType::E4m3;
  constexpr auto e5m2 = OperandType::E5m2;
  const Product products[] = {
      {"fp8 qkv", kRows, 3 * h, h, e4m3, e4m3, true, false},
      {"fp8 qkv, bias", kRows, 3 * h, h, e4m3, e4m3, true, false, Epilogue::Bias},
      {"fp8 projection, bias, residual",
       kRows,
       h,
       h,
       e4m3,
       e4m3,
       true,
       false,
       Epilogue::Bias,
       true},
      {"fp8 mlp up", kRows, 4 * h, h, e4m3, e4m3, true, false},
      {"fp8 mlp down, bias, residual",
       kRows,
       h,
       4 * h,
       e4m3,
       e4m3,
       true,
       false,
       Epilogue::Bias,
       true},
      {"fp8 input gradient of qkv", kRows, h, 3 * h, e5m2, e4m3, true, false},
      {"fp8 input gradient of projection", kRows, h, h, e5m2, e4m3, true, false},
      {"fp8 input gradient of mlp up", kRows, h, 4 * h, e5m2, e4m3, true, false},
      {"fp8 input gradient of mlp down", kRows, 4 * h, h, e5m2, e4m3, true, false},
      {"fp8 weight gradient of qkv", h, 3 * h, kRows, e4m3, e5m2, false, true},
      {"fp8 weight gradient of projection", h, h, kRows, e4m3, e5m2, false, true},
      {"fp8 weight gradient of mlp up", h, 4 * h, kRows, e4m3, e5m2, false, true},
      {"fp8 weight gradient of mlp down", 4 * h, h, kRows, e4m3, e5m2, false, true}};
  Matmul matmul;
  const torch::Tensor inverse = torch::ones({1}, on_gpu(torch::kFloat32));
  for (const Product& that : products) {
    const torch::Tensor left = random_operand(that.m, that.k, that.left);
    const torch::Tensor right = random_operand(that.n, that.k, that.right);
    const torch::Tensor bias = random_bf16({that.n});
    const torch::Tensor addend = random_bf16({that.adds ? that.m : 1, that.n});
    const torch::Tensor output = torch::zeros(
        {that.m, that.n}, on_gpu(that.float_output ? torch::kFloat32 : torch::kBFloat16));
    const MatmulCall call{.output = output.data_ptr(),
                          .float_output = that.float_output,
                          .left = left.data_ptr(),
                          .right = right.data_ptr(),
                          .left_type = that.left,
                          .right_type = that.right,
                          .left_inverse = floats(inverse),
                          .right_inverse = floats(inverse),
                          .fast = that.fast,
                          .right_transposed = true,
                          .m = that.m,
                          .n = that.n,
                          .k = that.k,
                          .epilogue = that.epilogue,
                          .bias = bf16(bias),
                          .addend = that.adds ? bf16(addend) : nullptr};
    print_product(that.name, that.m, that.n, that.k, time_of([&] { matmul.run(call, stream()); }));
  }
}

}  // namespace lockstep::kernels
