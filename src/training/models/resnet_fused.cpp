// SPDX-License-Identifier: Apache-2.0
#include "training/models/resnet_fused.h"

#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/autograd.h>

#include "training/models/conv_calls.h"
#include "training/models/gpt2_fused.h"

namespace lockstep::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BlockCall {
  ConvEnginePtr engine;
  std::vector<Layer> path;
  std::optional<Layer> shortcut;
};

// Parameters of a part: weight of the convolution, weight and bias of the norm. The list has those
// of `path` and then those of `shortcut`.
constexpr size_t kNumbers = 3;

// A residual block as one autograd node, with features pixel by pixel (NHWC):
//
//   x_0 = input
//   x_i = ReLU(norm_i(conv_i(x_{i-1})))                            i = 1 .. n-1
//   output = ReLU(norm_n(conv_n(x_{n-1})) + shortcut)
//   shortcut = input, or norm_s(conv_s(input)) if the shape changes
//
// Kept for backward: the outputs of convolutions (before their norm), x_i, and for the last ReLU
// one bit per element. The inner ReLUs need none: their sign follows from the norm.
//
// Order of the saved tensors, which Saved reads back:
//
//   input | weight, features, values, x_i      for i = 1 .. n-1
//         | weight, features, values           of part n
//         | weight, features, values           of the shortcut, if it has parameters
//         | mask
class BlockFunction : public torch::autograd::Function<BlockFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const BlockCall& call,
                        const Tensor& given,
                        at::TensorList parameters) {
    const Tensor input = given.to(torch::kBFloat16).contiguous(kPixelByPixel);
    const Tensor workspace = new_norm_workspace(input);
    variable_list saved{input};
    const auto through = [&](const Tensor& from, const Layer& layer, size_t part) {
      const Tensor weight = as_weight(parameters[part * kNumbers]);
      Tensor features = convolve(*call.engine, from, weight, layer);
      Tensor values = statistics(features,
                                 parameters[part * kNumbers + 1],
                                 parameters[part * kNumbers + 2],
                                 layer,
                                 workspace);
      saved.insert(saved.end(), {weight, features, values});
      return std::pair(std::move(features), std::move(values));
    };
    Tensor from = input;
    for (size_t part = 0; part + 1 < call.path.size(); ++part) {
      const auto [features, values] = through(from, call.path[part], part);
      from = new_like(features);
      kernels::batch_norm_forward({.output = bf16(from),
                                   .input = bf16(features),
                                   .values = values_of(values),
                                   .rows = pixels(features),
                                   .channels = features.size(1)},
                                  stream());
      saved.push_back(from);
    }
    const auto [features, values] = through(from, call.path.back(), call.path.size() - 1);
    kernels::NormForward last{.input = bf16(features),
                              .values = values_of(values),
                              .addend = bf16(input),
                              .rows = pixels(features),
                              .channels = features.size(1)};
    if (call.shortcut) {
      const auto [others, other_values] = through(input, *call.shortcut, call.path.size());
      last.addend = bf16(others);
      last.addend_values = values_of(other_values);
    }
    Tensor output = new_like(features);
    const Tensor mask = torch::empty({pixels(features) * features.size(1) / 8},
                                     input.options().dtype(torch::kUInt8).requires_grad(false));
    last.output = bf16(output);
    last.mask = mask.data_ptr<uint8_t>();
    kernels::batch_norm_forward(last, stream());
    saved.push_back(mask);
    context->save_for_backward(saved);
    context->saved_data["call"] =
        c10::IValue::make_capsule(c10::make_intrusive<Holder>(call, given.scalar_type()));
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto capsule = context->saved_data["call"].toCapsule();
    const auto& held = static_cast<Holder&>(*capsule);
    const BlockCall& call = held.call;
    ConvEngine& engine = *call.engine;
    const Saved saved(context->get_saved_variables(), call);
    const Tensor gradient = gradients[0].to(torch::kBFloat16).contiguous(kPixelByPixel);
    const Tensor workspace = new_norm_workspace(gradient);
    const size_t last = call.path.size() - 1;

    variable_list results(2 + (last + 1 + (call.shortcut ? 1 : 0)) * kNumbers);
    const auto give = [&](size_t part, const Layer& layer, const Back& back, const Tensor& from) {
      Tensor* place = &results[2 + part * kNumbers];
      place[0] = weight_gradient(engine, back.gradient, from, saved.parts[part].weight, layer);
      place[1] = back.weight_gradient;
      place[2] = back.bias_gradient;
    };

    Back back{saved.parts[last].features, saved.parts[last].values};
    kernels::NormBackward end{.gradient = bf16(gradient),
                              .mask = saved.mask.data_ptr<uint8_t>(),
                              .main = back.call(),
                              .workspace = workspace.data_ptr(),
                              .rows = pixels(back.features),
                              .channels = back.features.size(1)};
    // The gradient that reaches the input through the shortcut. The product of the first
    // convolution adds it to its own.
    Tensor past;
    if (call.shortcut) {
      const auto& part = saved.parts[last + 1];
      const Back other{part.features, part.values};
      end.shortcut = other.call();
      kernels::batch_norm_backward(end, stream());
      give(last + 1, *call.shortcut, other, saved.input);
      past = input_gradient(engine, other.gradient, saved.input, part.weight, *call.shortcut, {});
    } else {
      past = new_like(back.features);
      end.masked = bf16(past);
      kernels::batch_norm_backward(end, stream());
    }
    for (size_t part = last; part > 0; --part) {
      const Tensor& from = saved.outputs[part - 1];
      give(part, call.path[part], back, from);
      const Tensor behind = input_gradient(
          engine, back.gradient, from, saved.parts[part].weight, call.path[part], {});
      back = Back{saved.parts[part - 1].features, saved.parts[part - 1].values};
      kernels::batch_norm_backward({.gradient = bf16(behind),
                                    .main = back.call(),
                                    .workspace = workspace.data_ptr(),
                                    .rows = pixels(back.features),
                                    .channels = back.features.size(1)},
                                   stream());
    }
    give(0, call.path[0], back, saved.input);
    results[1] = input_gradient(
                     engine, back.gradient, saved.input, saved.parts[0].weight, call.path[0], past)
                     .to(held.type);
    return results;
  }

 private:
  struct Holder : torch::CustomClassHolder {
    Holder(BlockCall held, torch::ScalarType given) : call(std::move(held)), type(given) {}
    BlockCall call;
    torch::ScalarType type;
  };

  // Tensors saved by forward(), in the same order.
  struct Saved {
    struct Part {
      Tensor weight;
      Tensor features;  // before the batch norm
      Tensor values;
    };

    Saved(variable_list list, const BlockCall& call) : input(list[0]) {
      size_t next = 1;
      const size_t count = call.path.size() + (call.shortcut ? 1 : 0);
      for (size_t part = 0; part < count; ++part) {
        parts.push_back({list[next], list[next + 1], list[next + 2]});
        next += 3;
        if (part + 1 < call.path.size()) {
          outputs.push_back(list[next++]);
        }
      }
      mask = list[next];
    }

    Tensor input;
    std::vector<Part> parts;
    std::vector<Tensor> outputs;  // after ReLU; without the last part of the path
    Tensor mask;
  };
};

}  // namespace

ConvEnginePtr find_conv_engine(const Tensor& weight, const ConvEnginePtr& last) {
  // --sync-batchnorm replaces the operator of libtorch, which the fused kernels bypass. Its scope
  // is visible in this thread-local entry.
  const bool shares_norms =
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO_2) != nullptr;
  if (!weight.is_cuda() || !computes_in_bf16(weight) || shares_norms) {
    return nullptr;
  }
  return last != nullptr && last->device == weight.device()
             ? last
             : std::make_shared<ConvEngine>(weight.device());
}

Tensor fused_block(const ConvEnginePtr& engine,
                   const Tensor& input,
                   const std::vector<ConvNorm>& path,
                   const std::optional<ConvNorm>& shortcut) {
  BlockCall call{.engine = engine, .path = {}, .shortcut = std::nullopt};
  variable_list parameters;
  const auto add = [&parameters](const ConvNorm& part) {
    parameters.insert(parameters.end(), {part.conv->weight, part.norm->weight, part.norm->bias});
    return layer_of(part);
  };
  for (const ConvNorm& part : path) {
    call.path.push_back(add(part));
  }
  if (shortcut) {
    call.shortcut = add(*shortcut);
  }
  return BlockFunction::apply(call, input, at::TensorList(parameters));
}

}  // namespace lockstep::models
