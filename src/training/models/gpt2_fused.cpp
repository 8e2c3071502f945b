// SPDX-License-Identifier: Apache-2.0
#include "training/models/gpt2_fused.h"

#include <ATen/cuda/CUDAContext.h>
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <torch/autograd.h>
#include <torch/utils.h>

#include "training/kernels/cross_entropy.h"
#include "training/kernels/elementwise.h"
#include "training/kernels/embedding.h"
#include "training/kernels/matmul.h"
#include "training/models/attention_calls.h"
#include "training/models/autocast.h"
#include "training/models/fused_engine.h"
#include "training/models/kernel_calls.h"

namespace lockstep::models {
namespace {

using kernels::Bf16;
using kernels::Epilogue;
using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Scores are padded to a multiple of this: products with odd sizes are four times slower.
constexpr int64_t kScoreStride = 128;
// Scores are computed for this many rows at a time: 1.6 GB with a vocabulary of 50257.
constexpr int64_t kScoreRows = 16384;

// Records the maxima of tensors during the first training pass of fp8, which computes in bfloat16.
// The scales of later passes follow from them. Does nothing in other passes.
class Gauge {
 public:
  Gauge() = default;
  Gauge(const FusedEngine& engine, int64_t block) : block_(block) {
    if (engine.mode() == Fp8State::Mode::Measuring) {
      scales_ = engine.fp8->scales();
    }
  }

  void measure(const Tensor& tensor, Fp8Slot slot) const {
    if (scales_) {
      record(tensor, Fp8Scales::of_block(block_, slot));
    }
  }

 private:
  void record(const Tensor& tensor, int64_t index) const {
    kernels::record_amax(scales_->history(index), bf16(tensor), tensor.numel(), stream());
  }

  std::optional<Fp8Scales> scales_;
  int64_t block_ = 0;
};

struct MixGradient {
  Tensor values;  // [rows, 3 x width]
  Tensor bias;
};

MixGradient join(const AttentionGradient& parts) {
  const int64_t rows = parts.query.size(0);
  const int64_t width = parts.query.size(1);
  MixGradient result{new_bf16(parts.query, {rows, 3 * width}), new_f32(parts.query, {3 * width})};
  const Tensor workspace = new_workspace(parts.query, kernels::column_sum_workspace(3 * width));
  kernels::join_columns(bf16(result.values),
                        f32(result.bias),
                        bf16(parts.query),
                        bf16(parts.key),
                        bf16(parts.value),
                        workspace.data_ptr(),
                        rows,
                        width,
                        stream());
  return result;
}

// A transformer block as one autograd node:
//
//   first  = LayerNorm(input)                    [rows, width], rows = N * T
//   mixed  = first W_mix + b                     [rows, 3 width]: query, key, value
//   seen   = attention(mixed)
//   middle = input + seen W_out + b              residual
//   second = LayerNorm(middle)
//   before = second W_up + b                     [rows, 4 width], input of gelu
//   wide   = gelu(before)
//   output = middle + wide W_down + b            residual
//
// Bias, gelu and residual are part of the matrix products (epilogues). One node instead of a dozen
// has a purpose besides speed: it decides itself what is kept for backward. Backward goes through
// the list in reverse; a residual connection adds the gradient of its output to that of its input,
// which norm_backward() does in the same kernel.
class BlockFunction : public torch::autograd::Function<BlockFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const FusedEnginePtr& engine,
                        int64_t heads,
                        int64_t block,
                        const Tensor& input,
                        const Tensor& first_weight,
                        const Tensor& first_bias,
                        const Tensor& mix_weight,
                        const Tensor& mix_bias,
                        const Tensor& out_weight,
                        const Tensor& out_bias,
                        const Tensor& second_weight,
                        const Tensor& second_bias,
                        const Tensor& up_weight,
                        const Tensor& up_bias,
                        const Tensor& down_weight,
                        const Tensor& down_bias) {
    const AttentionShape shape{input.size(0), input.size(1), heads};
    const Gauge gauge(*engine, block);
    const Tensor mix = copy_bf16(mix_weight);
    const Tensor out = copy_bf16(out_weight);
    const Tensor up = copy_bf16(up_weight);
    const Tensor down = copy_bf16(down_weight);
    const Tensor stream_in = input.reshape({shape.count * shape.length, input.size(2)});
    const Normed first = norm_forward(stream_in, copy_f32(first_weight), copy_f32(first_bias));
    const Tensor mixed =
        linear(engine->matmul, {.input = first.output, .weight = mix, .bias = copy_bf16(mix_bias)});
    const Attended seen = attend_forward(mixed, shape);
    const Tensor middle = linear(
        engine->matmul,
        {.input = seen.output, .weight = out, .bias = copy_bf16(out_bias), .addend = stream_in});
    const Normed second = norm_forward(middle, copy_f32(second_weight), copy_f32(second_bias));
    const Tensor before = new_bf16(middle, {middle.size(0), up_weight.size(1)});
    const Tensor wide = linear(engine->matmul,
                               {.input = second.output,
                                .weight = up,
                                .bias = copy_bf16(up_bias),
                                .epilogue = Epilogue::BiasGelu,
                                .aux = before});
    const Tensor output =
        linear(engine->matmul,
               {.input = wide, .weight = down, .bias = copy_bf16(down_bias), .addend = middle});
    gauge.measure(mix, Fp8Slot::MixWeight);
    gauge.measure(out, Fp8Slot::OutWeight);
    gauge.measure(up, Fp8Slot::UpWeight);
    gauge.measure(down, Fp8Slot::DownWeight);
    gauge.measure(first.output, Fp8Slot::Norm1);
    gauge.measure(seen.output, Fp8Slot::Attended);
    gauge.measure(second.output, Fp8Slot::Norm2);
    gauge.measure(wide, Fp8Slot::Wide);
    hold(context, "engine", engine);
    hold(context, "gauge", gauge);
    context->saved_data["heads"] = heads;
    context->save_for_backward({input,     first_weight,  mix_weight,    out_weight,  second_weight,
                                up_weight, down_weight,   first.output,  first.mean,  first.rstd,
                                mixed,     seen.output,   seen.log_sums, seen.seed,   seen.offset,
                                middle,    second.output, second.mean,   second.rstd, before,
                                wide});
    return output.view(input.sizes());
  }

  // Saved tensors have the order of save_for_backward() above. Weights are saved as parameters and
  // copied again: with ZeRO stage 3 their memory was released after forward, and the copy, an
  // operator, gathers it. The results have the order of the arguments of forward(), of which
  // engine, heads and block have no gradient.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    FusedEngine& engine = *held_by<FusedEnginePtr>(context, "engine");
    if (engine.fp8) {
      engine.fp8->note_backward();
    }
    const auto& gauge = held_by<Gauge>(context, "gauge");
    const variable_list saved = context->get_saved_variables();
    const Tensor& input = saved[0];
    const AttentionShape shape{input.size(0), input.size(1), context->saved_data["heads"].toInt()};
    const int64_t rows = shape.count * shape.length;
    const int64_t width = input.size(2);
    const Normed first{saved[7], saved[8], saved[9]};
    const Tensor& mixed = saved[10];
    const Attended seen{saved[11], saved[12], saved[13], saved[14]};
    const Tensor& middle = saved[15];
    const Normed second{saved[16], saved[17], saved[18]};
    const Tensor& before = saved[19];
    const Tensor& wide = saved[20];

    const Tensor output_gradient =
        gradients[0].to(torch::kBFloat16).contiguous().view({rows, width});
    const Tensor down_bias = column_sum(output_gradient);
    const Tensor down_weight = weight_gradient(engine.matmul, wide, output_gradient);
    const Tensor wide_gradient = input_gradient(
        engine.matmul, output_gradient, copy_bf16(saved[6]), Epilogue::GeluBackward, before);
    const Tensor up_bias = column_sum(wide_gradient);
    const Tensor up_weight = weight_gradient(engine.matmul, second.output, wide_gradient);
    const NormGradient middle_gradient =
        norm_backward(input_gradient(engine.matmul, wide_gradient, copy_bf16(saved[5])),
                      middle,
                      second,
                      copy_f32(saved[4]),
                      output_gradient,
                      /*sums_columns=*/true);
    const Tensor out_weight = weight_gradient(engine.matmul, seen.output, middle_gradient.input);
    const MixGradient mix = join(
        attend_backward(input_gradient(engine.matmul, middle_gradient.input, copy_bf16(saved[3])),
                        mixed,
                        seen,
                        shape));
    const Tensor mix_weight = weight_gradient(engine.matmul, first.output, mix.values);
    const NormGradient in =
        norm_backward(input_gradient(engine.matmul, mix.values, copy_bf16(saved[2])),
                      input.reshape({rows, width}),
                      first,
                      copy_f32(saved[1]),
                      middle_gradient.input,
                      /*sums_columns=*/false);
    gauge.measure(output_gradient, Fp8Slot::DownGradient);
    gauge.measure(wide_gradient, Fp8Slot::UpGradient);
    gauge.measure(middle_gradient.input, Fp8Slot::OutGradient);
    gauge.measure(mix.values, Fp8Slot::MixGradient);
    return {Tensor(),
            Tensor(),
            Tensor(),
            in.input.view(input.sizes()),
            in.weight,
            in.bias,
            mix_weight,
            mix.bias,
            out_weight,
            middle_gradient.column_sum,
            middle_gradient.weight,
            middle_gradient.bias,
            up_weight,
            up_bias,
            down_weight,
            down_bias};
  }
};

class NormFunction : public torch::autograd::Function<NormFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const Tensor& input,
                        const Tensor& weight,
                        const Tensor& bias) {
    const Tensor rows = input.reshape({-1, input.size(-1)});
    const Normed normed = norm_forward(rows, copy_f32(weight), copy_f32(bias));
    context->save_for_backward({input, weight, normed.mean, normed.rstd});
    return normed.output.view(input.sizes());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor input = saved[0].reshape({-1, saved[0].size(-1)});
    const NormGradient gradient = norm_backward(gradients[0].to(torch::kBFloat16).contiguous(),
                                                input,
                                                {{}, saved[2], saved[3]},
                                                copy_f32(saved[1]),
                                                /*residual=*/{},
                                                /*sums_columns=*/false);
    return {gradient.input.view(saved[0].sizes()), gradient.weight, gradient.bias};
  }
};

class EmbeddingFunction : public torch::autograd::Function<EmbeddingFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const Tensor& tokens,
                        const Tensor& token_table,
                        const Tensor& position_table) {
    const int64_t length = tokens.size(1);
    Tensor output = new_bf16(token_table, {tokens.size(0), length, token_table.size(1)});
    at::add_out(output,
                at::embedding(token_table.detach(), tokens),
                position_table.detach().narrow(0, 0, length));
    context->save_for_backward({tokens});
    context->saved_data["vocabulary"] = token_table.size(0);
    context->saved_data["context"] = position_table.size(0);
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor tokens = context->get_saved_variables()[0];
    const Tensor gradient = gradients[0].to(torch::kBFloat16).contiguous();
    const int64_t length = tokens.size(1);
    const int64_t columns = gradient.size(2);
    // Stable, so that the order of additions for a token is that of the text.
    const auto [sorted, order] = at::sort(
        tokens.flatten(), /*stable=*/std::optional<bool>(true), /*dim=*/0, /*descending=*/false);
    const auto options = gradient.options().dtype(torch::kFloat32);
    Tensor token_gradient =
        torch::zeros({context->saved_data["vocabulary"].toInt(), columns}, options);
    Tensor position_gradient =
        torch::zeros({context->saved_data["context"].toInt(), columns}, options);
    kernels::embedding_backward(f32(token_gradient),
                                bf16(gradient),
                                sorted.data_ptr<int64_t>(),
                                order.data_ptr<int64_t>(),
                                tokens.numel(),
                                columns,
                                stream());
    kernels::position_backward(
        f32(position_gradient), bf16(gradient), tokens.numel(), length, columns, stream());
    return {Tensor(), token_gradient, position_gradient};
  }
};

// Computes in bfloat16 even if the blocks use fp8. With fp8 operands, the rounded probabilities of
// frequent tokens add the same error to the gradient of every hidden state, and the loss falls more
// slowly.
//
// Forward computes the gradients of the mean over all rows, from each chunk of scores while it is
// in memory. Backward multiplies them by the gradient of the loss.
//
// The table is padded to `stride` rows, so that the scores have an aligned row length.
// cross_entropy() ignores the scores of the padding and sets their gradients to zero.
class TokenLossFunction : public torch::autograd::Function<TokenLossFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const FusedEnginePtr& engine,
                        const Tensor& hidden,
                        const Tensor& token_table,
                        const Tensor& targets,
                        bool wants_gradient) {
    const int64_t width = hidden.size(-1);
    const int64_t classes = token_table.size(0);
    const Tensor rows = hidden.reshape({-1, width});
    const Tensor goals = targets.reshape({-1}).contiguous();
    const int64_t count = rows.size(0);
    const int64_t stride = (classes + kScoreStride - 1) / kScoreStride * kScoreStride;
    Tensor table = new_bf16(rows, {stride, width});
    table.narrow(0, 0, classes).copy_(token_table.detach());
    table.narrow(0, classes, stride - classes).zero_();
    Tensor losses = new_f32(rows, {count});
    Tensor hidden_gradient = wants_gradient ? new_bf16(rows, {count, width}) : Tensor();
    Tensor table_gradient = wants_gradient ? new_f32(rows, {stride, width}) : Tensor();
    Tensor scores = new_bf16(rows, {std::min(count, kScoreRows), stride});
    for (int64_t begin = 0; begin < count; begin += kScoreRows) {
      const int64_t size = std::min(kScoreRows, count - begin);
      const Tensor some = rows.narrow(0, begin, size);
      engine->matmul.run({.output = scores.data_ptr(),
                          .left = bf16(some),
                          .right = bf16(table),
                          .right_transposed = true,
                          .m = size,
                          .n = stride,
                          .k = width},
                         stream());
      kernels::cross_entropy({.losses = f32(losses) + begin,
                              .scores = bf16(scores),
                              .targets = goals.data_ptr<int64_t>() + begin,
                              .rows = size,
                              .classes = classes,
                              .stride = stride,
                              .scale = 1 / static_cast<float>(count),
                              .gradient = wants_gradient},
                             stream());
      if (wants_gradient) {
        engine->matmul.run({.output = hidden_gradient.narrow(0, begin, size).data_ptr(),
                            .left = bf16(scores),
                            .right = bf16(table),
                            .m = size,
                            .n = width,
                            .k = stride},
                           stream());
        engine->matmul.run({.output = table_gradient.data_ptr(),
                            .float_output = true,
                            .accumulate = begin > 0,
                            .left = bf16(scores),
                            .right = bf16(some),
                            .left_transposed = true,
                            .m = stride,
                            .n = width,
                            .k = size},
                           stream());
      }
    }
    // Converts the mean over all rows to the mean over the rows with a target. Usually 1, which is
    // exact in 16 bits.
    const Tensor share = static_cast<float>(count) / goals.ge(0).sum().to(torch::kFloat32);
    if (wants_gradient) {
      context->save_for_backward({hidden_gradient, table_gradient.narrow(0, 0, classes), share});
      context->saved_data["shape"] = hidden.sizes().vec();
    }
    return losses.mean() * share;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor factor = gradients[0].to(torch::kFloat32) * saved[2];
    const std::vector<int64_t> shape = context->saved_data["shape"].toIntVector();
    return {Tensor(),
            (saved[0] * factor.to(torch::kBFloat16)).view(shape),
            saved[1] * factor,
            Tensor(),
            Tensor()};
  }
};

}  // namespace

FusedEnginePtr make_fused_engine(const Tensor& like, int64_t width, int64_t heads) {
  constexpr int64_t kLanes = 8;  // elements of 16 bits that a kernel takes at a time
  constexpr int64_t kWidestHead = 128;
  const int64_t head = width / heads;
  constexpr int64_t kWidest = 8192;  // limit of the backward pass of layer norm
  const bool fits =
      width % kLanes == 0 && width <= kWidest && head % kLanes == 0 && head <= kWidestHead;
  // Minimum compute capability for the attention of cuDNN and for bfloat16.
  constexpr int kGeneration = 8;
  if (!like.is_cuda() || !fits ||
      at::cuda::getDeviceProperties(like.device().index())->major < kGeneration) {
    return nullptr;
  }
  return std::make_shared<FusedEngine>();
}

std::string reason_against_fp8(torch::Device device) {
  if (!device.is_cuda()) {
    return "fp8 needs a GPU";
  }
  const auto* gpu = at::cuda::getDeviceProperties(device.index());
  constexpr int kFirst = 89;  // Ada; Hopper is 9.0
  const int found = 10 * gpu->major + gpu->minor;
  return found >= kFirst ? ""
                         : fmt::format("fp8 needs compute capability 8.9 or newer; {} has {}.{}",
                                       gpu->name,
                                       gpu->major,
                                       gpu->minor);
}

void begin_pass(
    const FusedEnginePtr& engine, const Tensor& like, int64_t blocks, bool is_fp8, bool trains) {
  engine->is_fp8 = is_fp8;
  if (!is_fp8) {
    return;
  }
  if (!engine->fp8) {
    engine->fp8.emplace(like, blocks);
  }
  engine->fp8->begin(trains);
}

bool computes_in_bf16(const Tensor& weight) {
  return weight.is_cuda() && (autocast_type(torch::kCUDA) == torch::kBFloat16 ||
                              weight.scalar_type() == torch::kBFloat16);
}

Tensor fused_block(const FusedEnginePtr& engine,
                   const Tensor& input,
                   const FusedBlock& block,
                   int64_t heads) {
  if (engine->mode() == Fp8State::Mode::Fp8) {
    return fp8_block(engine, input, block, heads);
  }
  return BlockFunction::apply(engine,
                              heads,
                              block.index,
                              input,
                              block.first.weight,
                              block.first.bias,
                              block.mix.weight,
                              block.mix.bias,
                              block.out.weight,
                              block.out.bias,
                              block.second.weight,
                              block.second.bias,
                              block.up.weight,
                              block.up.bias,
                              block.down.weight,
                              block.down.bias);
}

Tensor fused_norm(const Tensor& input, const FusedNorm& norm) {
  return NormFunction::apply(input, norm.weight, norm.bias);
}

Tensor fused_embedding(const Tensor& tokens,
                       const Tensor& token_table,
                       const Tensor& position_table) {
  return EmbeddingFunction::apply(tokens, token_table, position_table);
}

Tensor fused_token_loss(const FusedEnginePtr& engine,
                        const Tensor& hidden,
                        const Tensor& token_table,
                        const Tensor& targets) {
  const bool wants_gradient =
      torch::GradMode::is_enabled() && (hidden.requires_grad() || token_table.requires_grad());
  return TokenLossFunction::apply(engine, hidden, token_table, targets, wants_gradient);
}

}  // namespace lockstep::models
