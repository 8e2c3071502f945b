// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/fp8.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "lockstep/error.h"
#include "training/kernels/layer_norm.h"
#include "training/kernels/matmul.h"
#include "training/kernels/support.h"

namespace lockstep::kernels {
namespace {

// Rows that 16 does not divide, tiles that are not full, and more tiles than blocks.
const std::vector<std::pair<int64_t, int64_t>> kShapes = {
    {1, 16}, {7, 32}, {33, 256}, {130, 768}, {1000, 1600}, {20007, 2304}};

std::string name_of(int64_t rows, int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

torch::Tensor bytes_of(int64_t rows, int64_t columns) {
  // 0x7F is NaN in both types, so that bytes that are not written are detected.
  return torch::full({rows, columns}, 0x7F, on_gpu(torch::kUInt8));
}

Fp8* fp8(const torch::Tensor& bytes) {
  return reinterpret_cast<Fp8*>(bytes.data_ptr());
}

// float64
torch::Tensor decoded(const torch::Tensor& bytes, Fp8Type type) {
  const auto kind = type == Fp8Type::E4m3 ? torch::kFloat8_e4m3fn : torch::kFloat8_e5m2;
  return bytes.contiguous().view(kind).to(torch::kFloat32).to(torch::kFloat64);
}

// Half a unit in the last place, with a margin for float32 values that round to the neighbour.
void expect_rounded(const torch::Tensor& bytes,
                    const torch::Tensor& expected,
                    double scale,
                    Fp8Type type) {
  const bool is_e4m3 = type == Fp8Type::E4m3;
  const double relative = 1.05 * (is_e4m3 ? 1.0 / 16 : 1.0 / 8);
  const double smallest = is_e4m3 ? std::ldexp(1, -9) : std::ldexp(1, -16);
  const double largest = is_e4m3 ? 448 : 57344;
  const torch::Tensor wanted = (expected * scale).clamp(-largest, largest);
  expect_within(decoded(bytes, type), wanted, wanted.abs() * relative + smallest * 0.55);
}

// Scale and history of one tensor on the GPU.
class Slot {
 public:
  Slot(float scale, Fp8Type type) : type_(type), scale_(scale) {
    const Fp8Scale both{scale, 1 / scale};
    const Fp8History history{.limit = fp8_limit(type)};
    scales_ = upload(&both, sizeof both);
    history_ = upload(&history, sizeof history);
  }

  Fp8Output output(const torch::Tensor& plain, const torch::Tensor& transposed) const {
    return {.plain = plain.defined() ? fp8(plain) : nullptr,
            .transposed = transposed.defined() ? fp8(transposed) : nullptr,
            .type = type_,
            .scale = scale(),
            .history = history()};
  }
  Fp8Scale* scale() const { return reinterpret_cast<Fp8Scale*>(scales_.data_ptr()); }
  Fp8History* history() const { return reinterpret_cast<Fp8History*>(history_.data_ptr()); }
  Fp8Scale read_scale() const { return download<Fp8Scale>(scales_); }
  Fp8History read_history() const { return download<Fp8History>(history_); }
  double factor() const { return scale_; }

 private:
  static torch::Tensor upload(const void* from, size_t bytes) {
    const torch::Tensor host = torch::empty({static_cast<int64_t>(bytes)}, torch::kUInt8);
    std::memcpy(host.data_ptr(), from, bytes);
    return host.to(torch::kCUDA);
  }
  template <typename Value>
  static Value download(const torch::Tensor& from) {
    const torch::Tensor host = from.to(torch::kCPU);
    Value value;
    std::memcpy(&value, host.data_ptr(), sizeof value);
    return value;
  }

  Fp8Type type_;
  double scale_;
  torch::Tensor scales_;
  torch::Tensor history_;
};

// Checks both copies, the padding and the recorded maximum.
void expect_output(const torch::Tensor& plain,
                   const torch::Tensor& transposed,
                   const Slot& slot,
                   const torch::Tensor& expected,
                   Fp8Type type) {
  const int64_t rows = expected.size(0);
  expect_rounded(plain, expected, slot.factor(), type);
  EXPECT_TRUE(torch::equal(transposed.narrow(1, 0, rows).t().contiguous(), plain));
  EXPECT_EQ(transposed.narrow(1, rows, transposed.size(1) - rows).count_nonzero().item<int64_t>(),
            0);
  const double amax = expected.abs().max().item<double>();
  EXPECT_NEAR(slot.read_history().amax, amax, 1e-5 * amax);
}

TEST(Fp8, CastRoundsTransposesAndAddsUp) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    for (const Fp8Type type : {Fp8Type::E4m3, Fp8Type::E5m2}) {
      SCOPED_TRACE(name_of(rows, columns));
      const Slot slot(64, type);
      const torch::Tensor input = random_bf16({rows, columns});
      const torch::Tensor plain = bytes_of(rows, columns);
      const torch::Tensor transposed = bytes_of(columns, fp8_stride(rows));
      const torch::Tensor sums = poison({columns}, torch::kFloat32);
      const torch::Tensor workspace = workspace_of(fp8_workspace(columns));
      cast_to_fp8(slot.output(plain, transposed),
                  floats(sums),
                  bf16(input),
                  workspace.data_ptr(),
                  rows,
                  columns,
                  stream());
      expect_output(plain, transposed, slot, input.to(torch::kFloat64), type);
      expect_sums(sums, input);

      const torch::Tensor again = bytes_of(columns, fp8_stride(rows));
      transpose_fp8(fp8(again), fp8(plain), rows, columns, stream());
      EXPECT_TRUE(torch::equal(again, transposed));
      const torch::Tensor alone = bytes_of(rows, columns);
      cast_to_fp8(slot.output(alone, {}), nullptr, bf16(input), nullptr, rows, columns, stream());
      EXPECT_TRUE(torch::equal(alone, plain));
    }
  }
}

TEST(Fp8, CastSaturatesAndKeepsNan) {
  LOCKSTEP_NEEDS_GPU();
  const Slot slot(1, Fp8Type::E4m3);
  const torch::Tensor input = random_bf16({16, 16});
  input[0][0] = 1e6;
  input[1][1] = -1e6;
  input[2][2] = std::numeric_limits<float>::quiet_NaN();
  const torch::Tensor plain = bytes_of(16, 16);
  cast_to_fp8(slot.output(plain, {}), nullptr, bf16(input), nullptr, 16, 16, stream());
  const torch::Tensor values = decoded(plain, Fp8Type::E4m3);
  EXPECT_EQ(values[0][0].item<double>(), 448);
  EXPECT_EQ(values[1][1].item<double>(), -448);
  EXPECT_EQ(values.isnan().sum().item<int64_t>(), 1);
  EXPECT_NEAR(slot.read_history().amax, 1e6, 4e3);
}

TEST(Fp8, GeluAgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    SCOPED_TRACE(name_of(rows, columns));
    const Slot slot(32, Fp8Type::E4m3);
    const torch::Tensor product = random_bf16({rows, columns}, 2);
    const torch::Tensor bias = random_floats({columns});
    const torch::Tensor plain = bytes_of(rows, columns);
    const torch::Tensor transposed = bytes_of(columns, fp8_stride(rows));
    gelu_to_fp8(
        slot.output(plain, transposed), bf16(product), floats(bias), rows, columns, stream());
    const torch::Tensor x = product.to(torch::kFloat64) + bias.to(torch::kFloat64);
    expect_output(plain, transposed, slot, torch::gelu(x, "tanh"), Fp8Type::E4m3);
  }
}

TEST(Fp8, GeluBackwardAgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    SCOPED_TRACE(name_of(rows, columns));
    const Slot slot(256, Fp8Type::E5m2);
    const torch::Tensor dy = random_bf16({rows, columns});
    const torch::Tensor product = random_bf16({rows, columns}, 2);
    const torch::Tensor bias = random_floats({columns});
    const torch::Tensor plain = bytes_of(rows, columns);
    const torch::Tensor transposed = bytes_of(columns, fp8_stride(rows));
    const torch::Tensor sums = poison({columns}, torch::kFloat32);
    const torch::Tensor workspace = workspace_of(fp8_workspace(columns));
    gelu_backward_to_fp8(slot.output(plain, transposed),
                         floats(sums),
                         bf16(dy),
                         bf16(product),
                         floats(bias),
                         workspace.data_ptr(),
                         rows,
                         columns,
                         stream());
    torch::Tensor x = (product.to(torch::kFloat64) + bias.to(torch::kFloat64)).detach();
    x.requires_grad_();
    torch::gelu(x, "tanh").backward(dy.to(torch::kFloat64));
    expect_output(plain, transposed, slot, x.grad(), Fp8Type::E5m2);
    // The fast exponential causes an error of about 1e-6 of dy in each term.
    expect_within(sums, x.grad().sum(0), dy.to(torch::kFloat64).abs().sum(0) * 3e-5);
  }
}

TEST(Fp8, JoinPutsThreeNextToEachOther) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : kShapes) {
    SCOPED_TRACE(name_of(rows, columns));
    const Slot slot(128, Fp8Type::E5m2);
    const torch::Tensor parts[] = {random_bf16({rows, columns}),
                                   random_bf16({rows, columns}, 3),
                                   random_bf16({rows, columns}, 0.1)};
    const torch::Tensor plain = bytes_of(rows, 3 * columns);
    const torch::Tensor transposed = bytes_of(3 * columns, fp8_stride(rows));
    const torch::Tensor sums = poison({3 * columns}, torch::kFloat32);
    const torch::Tensor workspace = workspace_of(fp8_workspace(3 * columns));
    join_to_fp8(slot.output(plain, transposed),
                floats(sums),
                bf16(parts[0]),
                bf16(parts[1]),
                bf16(parts[2]),
                workspace.data_ptr(),
                rows,
                columns,
                stream());
    const torch::Tensor expected = torch::cat({parts[0], parts[1], parts[2]}, 1);
    expect_output(plain, transposed, slot, expected.to(torch::kFloat64), Fp8Type::E5m2);
    expect_sums(sums, expected);
  }
}

TEST(Fp8, LayerNormAgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 16}, {33, 256}, {10007, 768}, {513, 1600}, {33, 4112}}) {
    SCOPED_TRACE(name_of(rows, columns));
    const Slot slot(32, Fp8Type::E4m3);
    const torch::Tensor input = random_bf16({rows, columns}, 3, 1);
    const torch::Tensor weight = random_floats({columns});
    const torch::Tensor bias = random_floats({columns});
    const torch::Tensor plain = bytes_of(rows, columns);
    const torch::Tensor mean = poison({rows}, torch::kFloat32);
    const torch::Tensor rstd = poison({rows}, torch::kFloat32);
    layer_norm_forward({.fp8 = fp8(plain),
                        .scale = slot.scale(),
                        .history = slot.history(),
                        .mean = floats(mean),
                        .rstd = floats(rstd),
                        .input = bf16(input),
                        .weight = floats(weight),
                        .bias = floats(bias),
                        .rows = rows,
                        .columns = columns},
                       stream());
    const torch::Tensor expected = torch::layer_norm(input.to(torch::kFloat64),
                                                     {columns},
                                                     weight.to(torch::kFloat64),
                                                     bias.to(torch::kFloat64),
                                                     1e-5);
    expect_rounded(plain, expected, slot.factor(), Fp8Type::E4m3);
    const double amax = expected.abs().max().item<double>();
    EXPECT_NEAR(slot.read_history().amax, amax, 1e-5 * amax);
  }
}

TEST(Fp8, ScalesFollowTheRecordedMaximum) {
  LOCKSTEP_NEEDS_GPU();
  const Slot slot(1, Fp8Type::E4m3);
  const auto after = [&](double amax, bool advances) {
    const torch::Tensor values = random_bf16({64}, 1e-3);
    values[5] = -amax;
    record_amax(slot.history(), bf16(values), 64, stream());
    refresh_scales(slot.scale(), slot.history(), 1, advances, stream());
    return slot.read_scale();
  };

  refresh_scales(slot.scale(), slot.history(), 1, true, stream());
  EXPECT_EQ(slot.read_scale().scale, 1);  // nothing recorded yet
  EXPECT_EQ(after(3.5, true).scale, 16);  // 448 / 8 / 3.5
  EXPECT_EQ(slot.read_scale().inverse, 1.0F / 16);
  EXPECT_EQ(slot.read_history().amax, 0);
  EXPECT_EQ(after(3.5625, true).scale, 8);
  // Without advancing, the history does not change.
  EXPECT_EQ(after(100, false).scale, 0.5F);
  EXPECT_EQ(slot.read_history().peak, 3.5625F);
  // Maxima that are not finite are ignored.
  EXPECT_EQ(after(std::numeric_limits<double>::infinity(), true).scale, 16);
  // A peak decays by half in 16 passes.
  EXPECT_EQ(after(56, true).scale, 1);
  for (int pass = 0; pass < 17; ++pass) {
    after(1, true);
  }
  EXPECT_EQ(slot.read_scale().scale, 2);
}

// ---- products

struct Operand {
  torch::Tensor bytes;
  torch::Tensor values;  // float64, the values of the bytes
};

Operand random_operand(int64_t rows, int64_t columns, Fp8Type type, double spread = 1) {
  const auto kind = type == Fp8Type::E4m3 ? torch::kFloat8_e4m3fn : torch::kFloat8_e5m2;
  const torch::Tensor bytes = (torch::randn({rows, columns}, on_gpu(torch::kFloat32)) * spread)
                                  .to(kind)
                                  .view(torch::kUInt8);
  return {bytes, decoded(bytes, type)};
}

struct ProductCase {
  OperandType left;
  OperandType right;
  bool fast;
};

Fp8Type fp8_type(OperandType type) {
  return type == OperandType::E4m3 ? Fp8Type::E4m3 : Fp8Type::E5m2;
}

TEST(Fp8Matmul, AgreesWithFloat64) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  const torch::Tensor inverses =
      torch::tensor({0.25F, 0.0F, 0.0F, 0.0F, 0.5F}, on_gpu(torch::kFloat32));
  for (const auto& [m, n, k] : std::vector<std::tuple<int64_t, int64_t, int64_t>>{
           {16, 16, 16}, {33, 64, 48}, {777, 2304, 768}, {768, 768, 4096}}) {
    for (const ProductCase& type : {ProductCase{OperandType::E4m3, OperandType::E4m3, true},
                                    ProductCase{OperandType::E5m2, OperandType::E4m3, false},
                                    ProductCase{OperandType::E4m3, OperandType::E5m2, false}}) {
      SCOPED_TRACE(name_of(m, n) + " x " + std::to_string(k));
      const Operand left = random_operand(m, k, fp8_type(type.left));
      const Operand right =
          random_operand(n, k, fp8_type(type.right), 1 / std::sqrt(static_cast<double>(k)));
      const torch::Tensor product = left.values.mm(right.values.t()) * 0.125;
      const torch::Tensor size = left.values.abs().mm(right.values.abs().t()) * 0.125;
      // The tensor cores of Hopper accumulate with fewer bits than float32: 13 bits after the
      // binary point of the largest term in fast mode. Otherwise this applies only between
      // promotions to float32.
      const torch::Tensor slack = size * (type.fast ? 1e-3 : 3e-4) + 1e-6;
      const torch::Tensor narrow = poison({m, n}, torch::kBFloat16);
      MatmulCall call{.output = narrow.data_ptr(),
                      .left = left.bytes.data_ptr(),
                      .right = right.bytes.data_ptr(),
                      .left_type = type.left,
                      .right_type = type.right,
                      .left_inverse = floats(inverses),
                      .right_inverse = floats(inverses) + 4,
                      .fast = type.fast,
                      .right_transposed = true,
                      .m = m,
                      .n = n,
                      .k = k};
      matmul.run(call, stream());
      expect_within(narrow, product, product.abs() * kBf16Bound + slack);

      const torch::Tensor bias = random_bf16({n});
      const torch::Tensor addend = random_bf16({m, n});
      call.epilogue = Epilogue::Bias;
      call.bias = bf16(bias);
      call.addend = bf16(addend);
      for (int time = 0; time < 2; ++time) {
        matmul.run(call, stream());
        const torch::Tensor sum = product + bias.to(torch::kFloat64) + addend.to(torch::kFloat64);
        expect_within(narrow, sum, sum.abs() * kBf16Bound + slack);
      }

      const torch::Tensor wide = poison({m, n}, torch::kFloat32);
      call.output = wide.data_ptr();
      call.float_output = true;
      call.epilogue = Epilogue::None;
      call.addend = nullptr;
      for (int time = 1; time <= 3; ++time) {
        matmul.run(call, stream());
        expect_within(wide, product * time, slack * time);
        call.accumulate = true;
      }
    }
  }
}

TEST(Fp8Matmul, TakesTheSummedDimensionLastOnly) {
  LOCKSTEP_NEEDS_GPU();
  Matmul matmul;
  MatmulCall call{.left_type = OperandType::E4m3,
                  .right_type = OperandType::E4m3,
                  .right_transposed = true,
                  .m = 16,
                  .n = 16,
                  .k = 24};
  EXPECT_THROW(matmul.run(call, stream()), Error);
  call.k = 16;
  call.right_transposed = false;
  EXPECT_THROW(matmul.run(call, stream()), Error);
  call.right_transposed = true;
  call.right_type = OperandType::Bf16;
  EXPECT_THROW(matmul.run(call, stream()), Error);
}

}  // namespace
}  // namespace lockstep::kernels
