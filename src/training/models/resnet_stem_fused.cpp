// SPDX-License-Identifier: Apache-2.0
#include <torch/autograd.h>

#include "training/kernels/stem.h"
#include "training/models/conv_calls.h"

namespace lockstep::models {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The first convolution of a ResNet, 7 x 7 with stride 2 over 3 channels, is slow on tensor cores,
// which want multiples of 8 channels. Grouping 2 x 2 pixels into a cell of 12 channels (space to
// depth) makes it a 4 x 4 convolution with stride 1 over cells, with the same products:
//
//   pixels   0 1 2 3 4 5 6      kernel of 7, with a zero (z) before it: 4 cells of 2
//   cells  |z 0|1 2|3 4|5 6|
//
// as_cells() arranges the weights accordingly: [out, 3, 8, 8] -> [out, 4, 4, (row, column,
// colour)]. from_cells() is its inverse, for the gradient.
Tensor as_cells(const Tensor& weight) {
  const int64_t out = weight.size(0);
  const Tensor wide = at::constant_pad_nd(weight, {1, 0, 1, 0});
  const Tensor cells = wide.view({out, 3, 4, 2, 4, 2}).permute({0, 2, 4, 3, 5, 1});
  const Tensor flat = at::constant_pad_nd(cells.reshape({out, 4, 4, 12}), {0, 4});
  return flat.to(torch::kBFloat16).permute({0, 3, 1, 2});
}

Tensor from_cells(const Tensor& cells) {
  const int64_t out = cells.size(0);
  const Tensor flat = cells.permute({0, 2, 3, 1}).narrow(3, 0, 12);
  const Tensor wide =
      flat.reshape({out, 4, 4, 2, 2, 3}).permute({0, 5, 1, 3, 2, 4}).reshape({out, 3, 8, 8});
  return wide.narrow(2, 1, 7).narrow(3, 1, 7).to(torch::kFloat32).contiguous();
}

// [out, 3, 3, 3] -> [out, (row, column, colour)], padded to the channels of a patch; from_patch()
// is the inverse, for the gradient.
Tensor as_patch(const Tensor& weight) {
  const int64_t out = weight.size(0);
  const Tensor flat = weight.permute({0, 2, 3, 1}).reshape({out, 27});
  return at::constant_pad_nd(flat, {0, kernels::kPatchChannels - 27})
      .to(torch::kBFloat16)
      .view({out, kernels::kPatchChannels, 1, 1});
}

Tensor from_patch(const Tensor& patch) {
  const int64_t out = patch.size(0);
  return patch.view({out, kernels::kPatchChannels})
      .narrow(1, 0, 27)
      .reshape({out, 3, 3, 3})
      .permute({0, 3, 1, 2})
      .contiguous();
}

struct StemPlan {
  ConvEnginePtr engine;
  Layer layer;
  std::array<float, 3> scale;
  std::array<float, 3> shift;
};

// Writes images, as bytes or floats, in the layout that the kernel `write` produces.
void arrange(const StemPlan& plan,
             const Tensor& given,
             const Tensor& output,
             void (*write)(const kernels::StemInput&, kernels::Stream)) {
  const bool are_bytes = given.scalar_type() == torch::kUInt8;
  const Tensor images = are_bytes ? given : given.to(torch::kFloat32);
  kernels::StemInput call{.output = bf16(output),
                          .stride_image = images.stride(0),
                          .stride_colour = images.stride(1),
                          .stride_row = images.stride(2),
                          .stride_column = images.stride(3),
                          .images = images.size(0),
                          .height = static_cast<int>(images.size(2)),
                          .width = static_cast<int>(images.size(3))};
  if (are_bytes) {
    call.bytes = images.data_ptr<uint8_t>();
    std::copy(plan.scale.begin(), plan.scale.end(), call.scale);
    std::copy(plan.shift.begin(), plan.shift.end(), call.shift);
  } else {
    call.floats = images.data_ptr<float>();
  }
  write(call, stream());
}

class StemFunction : public torch::autograd::Function<StemFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const StemPlan& plan,
                        const Tensor& images,
                        const Tensor& weight,
                        const Tensor& norm_weight,
                        const Tensor& norm_bias) {
    const Tensor cells = new_features(
        images, kernels::kCellChannels, images.size(2) / 2 + 3, images.size(3) / 2 + 3);
    arrange(plan, images, cells, kernels::image_cells);
    const Tensor kernel = as_cells(weight.detach());
    const Layer layer{};
    const Tensor features = convolve(*plan.engine, cells, kernel, layer);
    const Tensor workspace = new_norm_workspace(features);
    const Tensor values = statistics(features, norm_weight, norm_bias, plan.layer, workspace);
    Tensor output =
        new_features(features, features.size(1), features.size(2) / 2, features.size(3) / 2);
    const Tensor choice = torch::empty(
        {output.numel()}, features.options().dtype(torch::kUInt8).requires_grad(false));
    kernels::pool_forward({.output = bf16(output),
                           .choice = choice.data_ptr<uint8_t>(),
                           .input = bf16(features),
                           .values = values_of(values),
                           .images = features.size(0),
                           .height = static_cast<int>(features.size(2)),
                           .width = static_cast<int>(features.size(3)),
                           .channels = features.size(1)},
                          stream());
    context->save_for_backward({cells, kernel, features, values, choice});
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor gradient = gradients[0].to(torch::kBFloat16).contiguous(kPixelByPixel);
    const Tensor workspace = new_norm_workspace(gradient);
    const Back back{saved[2], saved[3]};
    kernels::batch_norm_backward({.gradient = bf16(gradient),
                                  .pooling = {.choice = saved[4].data_ptr<uint8_t>(),
                                              .height = static_cast<int>(back.features.size(2)),
                                              .width = static_cast<int>(back.features.size(3))},
                                  .main = back.call(),
                                  .workspace = workspace.data_ptr(),
                                  .rows = pixels(back.features),
                                  .channels = back.features.size(1)},
                                 stream());
    const Tensor cells =
        convolution_gradient(back.gradient, saved[0], saved[1], Layer{}, /*of_input=*/false);
    return {Tensor(), Tensor(), from_cells(cells), back.weight_gradient, back.bias_gradient};
  }
};

// The stem for small images: a 3 x 3 convolution over 3 channels, as a product of the 27 pixels
// around each pixel with the weights.
class SmallStemFunction : public torch::autograd::Function<SmallStemFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const StemPlan& plan,
                        const Tensor& images,
                        const Tensor& weight,
                        const Tensor& norm_weight,
                        const Tensor& norm_bias) {
    const Tensor patches =
        new_features(images, kernels::kPatchChannels, images.size(2), images.size(3));
    arrange(plan, images, patches, kernels::image_patches);
    const Tensor kernel = as_patch(weight.detach());
    const Tensor features = convolve(*plan.engine, patches, kernel, Layer{});
    const Tensor workspace = new_norm_workspace(features);
    const Tensor values = statistics(features, norm_weight, norm_bias, plan.layer, workspace);
    Tensor output = new_like(features);
    kernels::batch_norm_forward({.output = bf16(output),
                                 .input = bf16(features),
                                 .values = values_of(values),
                                 .rows = pixels(features),
                                 .channels = features.size(1)},
                                stream());
    context->save_for_backward({patches, kernel, features, values});
    context->saved_data["engine"] =
        c10::IValue::make_capsule(c10::make_intrusive<Holder>(plan.engine));
    return output;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["engine"].toCapsule();
    ConvEngine& engine = *static_cast<Holder&>(*capsule).engine;
    const Tensor gradient = gradients[0].to(torch::kBFloat16).contiguous(kPixelByPixel);
    const Tensor workspace = new_norm_workspace(gradient);
    const Back back{saved[2], saved[3]};
    kernels::batch_norm_backward({.gradient = bf16(gradient),
                                  .main = back.call(),
                                  .workspace = workspace.data_ptr(),
                                  .rows = pixels(back.features),
                                  .channels = back.features.size(1)},
                                 stream());
    const Tensor patch = weight_gradient(engine, back.gradient, saved[0], saved[1], Layer{});
    return {Tensor(), Tensor(), from_patch(patch), back.weight_gradient, back.bias_gradient};
  }

 private:
  struct Holder : torch::CustomClassHolder {
    explicit Holder(ConvEnginePtr held) : engine(std::move(held)) {}
    ConvEnginePtr engine;
  };
};

}  // namespace

Tensor fused_stem(const ConvEnginePtr& engine, const Tensor& images, const StemCall& call) {
  const StemPlan plan{engine, layer_of(call.stem), call.scale, call.shift};
  const auto& [conv, norm] = call.stem;
  return call.is_small
             ? SmallStemFunction::apply(plan, images, conv->weight, norm->weight, norm->bias)
             : StemFunction::apply(plan, images, conv->weight, norm->weight, norm->bias);
}

}  // namespace lockstep::models
