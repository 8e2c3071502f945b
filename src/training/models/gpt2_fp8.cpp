// SPDX-License-Identifier: Apache-2.0
//
// The blocks of GPT-2 with all matrix products in fp8: activations and weights in e4m3, gradients
// in e5m2, sums in float32 (Micikevicius et al. 2022, "FP8 formats for deep learning"). The
// residual stream, attention, norms and weight gradients have the same types as in bfloat16
// training.
#include <torch/autograd.h>

#include "common/base/check.h"
#include "training/models/attention_calls.h"
#include "training/models/fp8_calls.h"
#include "training/models/fused_engine.h"

namespace lockstep::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Maps the slots of one block to the indices of their scales.
class BlockSlots {
 public:
  explicit BlockSlots(int64_t block) : block_(block) {}
  int64_t operator()(Fp8Slot slot) const { return Fp8Scales::of_block(block_, slot); }

 private:
  int64_t block_;
};

// The same block as BlockFunction in gpt2_fused.cpp, with the same names. Differences: each operand
// of a product is rounded to fp8 with a scale of its own (Fp8Slot), in the kernel that produces it
// where possible; gelu is a kernel and not an epilogue, because it writes fp8 in both layouts.
class Fp8BlockFunction : public torch::autograd::Function<Fp8BlockFunction> {
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
    kernels::Matmul& matmul = engine->matmul;
    const Fp8Scales scales = engine->fp8->scales();
    const BlockSlots slots(block);
    const AttentionShape shape{input.size(0), input.size(1), heads};
    const Tensor stream_in = input.reshape({shape.count * shape.length, input.size(2)});
    const Fp8Tensor mix = cast(copy_bf16(mix_weight), scales, slots(Fp8Slot::MixWeight));
    const Fp8Tensor out = cast(copy_bf16(out_weight), scales, slots(Fp8Slot::OutWeight));
    const Fp8Tensor up = cast(copy_bf16(up_weight), scales, slots(Fp8Slot::UpWeight));
    const Fp8Tensor down = cast(copy_bf16(down_weight), scales, slots(Fp8Slot::DownWeight));
    const Tensor up_offset = copy_f32(up_bias);

    const Fp8Norm first = fp8_norm_forward(
        stream_in, copy_f32(first_weight), copy_f32(first_bias), scales, slots(Fp8Slot::Norm1));
    const Tensor mixed = fp8_linear(matmul, scales, first.output, mix, copy_bf16(mix_bias));
    const Attended seen = attend_forward(mixed, shape);
    const Fp8Tensor attended = cast(seen.output, scales, slots(Fp8Slot::Attended));
    const Tensor middle = fp8_linear(matmul, scales, attended, out, copy_bf16(out_bias), stream_in);
    const Fp8Norm second = fp8_norm_forward(
        middle, copy_f32(second_weight), copy_f32(second_bias), scales, slots(Fp8Slot::Norm2));
    const Tensor product = fp8_linear(matmul, scales, second.output, up);
    const Fp8Tensor wide = fp8_gelu(product, up_offset, scales, slots(Fp8Slot::Wide));
    const Tensor output = fp8_linear(matmul, scales, wide, down, copy_bf16(down_bias), middle);

    hold(context, "engine", engine);
    hold(context, "scales", scales);
    context->saved_data["heads"] = heads;
    context->saved_data["block"] = block;
    // Weight gradients need the transposed inputs; input gradients need the weights without
    // transpose.
    context->save_for_backward({input,
                                first_weight,
                                second_weight,
                                first.mean,
                                first.rstd,
                                first.output.transposed,
                                mix.plain,
                                mixed,
                                seen.output,
                                seen.log_sums,
                                seen.seed,
                                seen.offset,
                                attended.transposed,
                                out.plain,
                                middle,
                                second.mean,
                                second.rstd,
                                second.output.transposed,
                                up.plain,
                                product,
                                up_offset,
                                wide.transposed,
                                down.plain});
    return output.view(input.sizes());
  }

  // Uses the scales of its own forward pass: those of the engine may already belong to a later one.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    FusedEngine& engine = *held_by<FusedEnginePtr>(context, "engine");
    engine.fp8->note_backward();
    const Fp8Scales& scales = held_by<Fp8Scales>(context, "scales");
    const BlockSlots slots(context->saved_data["block"].toInt());
    const variable_list saved = context->get_saved_variables();
    LOCKSTEP_CHECK(saved.size() == 23);  // the indices below are positions in the list of forward()
    const Tensor& input = saved[0];
    const AttentionShape shape{input.size(0), input.size(1), context->saved_data["heads"].toInt()};
    const int64_t rows = shape.count * shape.length;
    const Normed first{{}, saved[3], saved[4]};
    const Fp8Tensor first_output{{}, saved[5], slots(Fp8Slot::Norm1)};
    const Fp8Tensor mix{saved[6], {}, slots(Fp8Slot::MixWeight)};
    const Tensor& mixed = saved[7];
    const Attended seen{saved[8], saved[9], saved[10], saved[11]};
    const Fp8Tensor attended{{}, saved[12], slots(Fp8Slot::Attended)};
    const Fp8Tensor out{saved[13], {}, slots(Fp8Slot::OutWeight)};
    const Tensor& middle = saved[14];
    const Normed second{{}, saved[15], saved[16]};
    const Fp8Tensor second_output{{}, saved[17], slots(Fp8Slot::Norm2)};
    const Fp8Tensor up{saved[18], {}, slots(Fp8Slot::UpWeight)};
    const Tensor& product = saved[19];
    const Tensor& up_offset = saved[20];
    const Fp8Tensor wide{{}, saved[21], slots(Fp8Slot::Wide)};
    const Fp8Tensor down{saved[22], {}, slots(Fp8Slot::DownWeight)};
    kernels::Matmul& matmul = engine.matmul;

    const Tensor dy = gradients[0].to(torch::kBFloat16).contiguous().view({rows, input.size(2)});
    const Fp8Gradient d_down = cast_gradient(dy, scales, slots(Fp8Slot::DownGradient));
    const Tensor down_weight = fp8_weight_gradient(matmul, scales, wide, d_down.values);
    const Fp8Gradient d_up =
        fp8_gelu_backward(fp8_input_gradient(matmul, scales, d_down.values, down),
                          product,
                          up_offset,
                          scales,
                          slots(Fp8Slot::UpGradient));
    const Tensor up_weight = fp8_weight_gradient(matmul, scales, second_output, d_up.values);
    const NormGradient d_middle = norm_backward(fp8_input_gradient(matmul, scales, d_up.values, up),
                                                middle,
                                                second,
                                                copy_f32(saved[2]),
                                                dy,
                                                /*sums_columns=*/false);
    const Fp8Gradient d_out = cast_gradient(d_middle.input, scales, slots(Fp8Slot::OutGradient));
    const Tensor out_weight = fp8_weight_gradient(matmul, scales, attended, d_out.values);
    const AttentionGradient d_attention =
        attend_backward(fp8_input_gradient(matmul, scales, d_out.values, out), mixed, seen, shape);
    const Fp8Gradient d_mix = join_gradients(
        d_attention.query, d_attention.key, d_attention.value, scales, slots(Fp8Slot::MixGradient));
    const Tensor mix_weight = fp8_weight_gradient(matmul, scales, first_output, d_mix.values);
    const NormGradient d_input =
        norm_backward(fp8_input_gradient(matmul, scales, d_mix.values, mix),
                      input.reshape({rows, input.size(2)}),
                      first,
                      copy_f32(saved[1]),
                      d_middle.input,
                      /*sums_columns=*/false);
    return {Tensor(),
            Tensor(),
            Tensor(),
            d_input.input.view(input.sizes()),
            d_input.weight,
            d_input.bias,
            mix_weight,
            d_mix.bias,
            out_weight,
            d_out.bias,
            d_middle.weight,
            d_middle.bias,
            up_weight,
            d_up.bias,
            down_weight,
            d_down.bias};
  }
};

}  // namespace

Tensor fp8_block(const FusedEnginePtr& engine,
                 const Tensor& input,
                 const FusedBlock& block,
                 int64_t heads) {
  return Fp8BlockFunction::apply(engine,
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

}  // namespace lockstep::models
