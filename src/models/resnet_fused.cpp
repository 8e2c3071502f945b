// SPDX-License-Identifier: Apache-2.0
#include "models/resnet_fused.h"

#include <ATen/Context.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include "base/check.h"
#include "kernels/batch_norm.h"
#include "kernels/matmul.h"
#include "kernels/stem.h"
#include "models/gpt2_fused.h"
#include "models/kernel_calls.h"

namespace lockstep::models {

class ConvEngine {
 public:
  explicit ConvEngine(torch::Device where) : device(where) {
    // From here on cuDNN tries its ways for each shape and keeps the fastest; libtorch has one such
    // switch for the whole process. Whoever wants the same bits each time keeps it off.
    if (!at::globalContext().deterministicCuDNN()) {
      at::globalContext().setBenchmarkCuDNN(true);
    }
  }

  kernels::Matmul matmul;
  torch::Device device;
};

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr auto kPixelByPixel = torch::MemoryFormat::ChannelsLast;

// A convolution and its batch norm, but for the trained numbers.
struct Layer {
  int64_t stride = 1;
  int64_t padding = 0;
  Tensor running_mean;
  Tensor running_variance;
  Tensor batches;
  double momentum = 0.1;
  double epsilon = 1e-5;
};

Layer layer_of(const ConvNorm& part) {
  const auto& norm = *part.norm;
  return {.stride = part.conv->options.stride()->front(),
          .padding = part.conv->weight.size(2) / 2,
          .running_mean = norm.running_mean,
          .running_variance = norm.running_var,
          .batches = norm.num_batches_tracked,
          .momentum = norm.options.momentum().value_or(0.1),
          .epsilon = norm.options.eps()};
}

// Of `path` and then of `aside`: weight of the convolution, weight and bias of the norm.
struct BlockCall {
  ConvEnginePtr engine;
  std::vector<Layer> path;
  std::optional<Layer> aside;
};

int64_t pixels(const Tensor& features) {
  return features.size(0) * features.size(2) * features.size(3);
}

bool is_product(const Tensor& weight, const Layer& layer) {
  return weight.size(2) == 1 && layer.stride == 1;
}

Tensor new_features(const Tensor& like, int64_t channels, int64_t height, int64_t width) {
  return torch::empty(
      {like.size(0), channels, height, width},
      like.options().dtype(torch::kBFloat16).requires_grad(false).memory_format(kPixelByPixel));
}

Tensor convolve(ConvEngine& engine, const Tensor& input, const Tensor& weight, const Layer& layer) {
  if (!is_product(weight, layer)) {
    // cuDNN answers pixel by pixel; should something else have answered, it is put so.
    return at::convolution(input,
                           weight,
                           {},
                           {layer.stride, layer.stride},
                           {layer.padding, layer.padding},
                           {1, 1},
                           false,
                           {0, 0},
                           1)
        .contiguous(kPixelByPixel);
  }
  Tensor output = new_features(input, weight.size(0), input.size(2), input.size(3));
  engine.matmul.run({.output = output.data_ptr(),
                     .left = bf16(input),
                     .right = bf16(weight),
                     .right_transposed = true,
                     .m = pixels(input),
                     .n = weight.size(0),
                     .k = weight.size(1)},
                    stream());
  return output;
}

// One of both, of a convolution that is no matrix product.
Tensor convolution_gradient(const Tensor& gradient,
                            const Tensor& input,
                            const Tensor& weight,
                            const Layer& layer,
                            bool of_input) {
  const auto both = at::convolution_backward(gradient,
                                             input,
                                             weight,
                                             at::OptionalIntArrayRef(),
                                             {layer.stride, layer.stride},
                                             {layer.padding, layer.padding},
                                             {1, 1},
                                             false,
                                             {0, 0},
                                             1,
                                             {of_input, !of_input, false});
  return of_input ? std::get<0>(both).contiguous(kPixelByPixel) : std::get<1>(both);
}

// In float32, in the order of the parameter.
Tensor weight_gradient(ConvEngine& engine,
                       const Tensor& gradient,
                       const Tensor& input,
                       const Tensor& weight,
                       const Layer& layer) {
  Tensor result = new_f32(weight, weight.sizes());
  if (!is_product(weight, layer)) {
    return result.copy_(convolution_gradient(gradient, input, weight, layer, /*of_input=*/false));
  }
  engine.matmul.run({.output = result.data_ptr(),
                     .float_output = true,
                     .left = bf16(gradient),
                     .right = bf16(input),
                     .left_transposed = true,
                     .m = weight.size(0),
                     .n = weight.size(1),
                     .k = pixels(input)},
                    stream());
  return result;
}

// With `addend`, unless that is undefined.
Tensor input_gradient(ConvEngine& engine,
                      const Tensor& gradient,
                      const Tensor& input,
                      const Tensor& weight,
                      const Layer& layer,
                      const Tensor& addend) {
  if (!is_product(weight, layer)) {
    Tensor result = convolution_gradient(gradient, input, weight, layer, /*of_input=*/true);
    return addend.defined() ? result.add_(addend) : result;
  }
  Tensor result = new_features(input, weight.size(1), input.size(2), input.size(3));
  engine.matmul.run({.output = result.data_ptr(),
                     .left = bf16(gradient),
                     .right = bf16(weight),
                     .m = pixels(input),
                     .n = weight.size(1),
                     .k = weight.size(0),
                     .addend = addend.defined() ? bf16(addend) : nullptr},
                    stream());
  return result;
}

Tensor new_norm_workspace(const Tensor& like) {
  Tensor workspace = new_workspace(like, kernels::batch_norm_workspace());
  workspace.narrow(0, 0, kernels::kNormCounters).zero_();
  return workspace;
}

// A row each: mean, inverse, scale, shift.
kernels::NormValues values_of(const Tensor& rows) {
  const int64_t channels = rows.size(1);
  float* first = f32(rows);
  return {.mean = first,
          .inverse = first + channels,
          .scale = first + 2 * channels,
          .shift = first + 3 * channels};
}

Tensor statistics(const Tensor& features,
                  const Tensor& weight,
                  const Tensor& bias,
                  const Layer& layer,
                  const Tensor& workspace) {
  Tensor rows = new_f32(features, {4, features.size(1)});
  const Tensor scale = copy_f32(weight);
  const Tensor shift = copy_f32(bias);
  kernels::batch_norm_statistics(
      {.values = values_of(rows),
       .running_mean = f32(layer.running_mean),
       .running_variance = f32(layer.running_variance),
       .batches = layer.batches.defined() ? layer.batches.data_ptr<int64_t>() : nullptr,
       .input = bf16(features),
       .weight = f32(scale),
       .bias = f32(shift),
       .workspace = workspace.data_ptr(),
       .rows = pixels(features),
       .channels = features.size(1),
       .momentum = static_cast<float>(layer.momentum),
       .epsilon = static_cast<float>(layer.epsilon)},
      stream());
  return rows;
}

Tensor new_like(const Tensor& features) {
  return new_features(features, features.size(1), features.size(2), features.size(3));
}

// What backward wants of a batch norm, and where its results go.
struct Back {
  Tensor features;
  Tensor values;
  Tensor weight_gradient = new_f32(features, {features.size(1)});
  Tensor bias_gradient = new_f32(features, {features.size(1)});
  Tensor factors = new_f32(features, {3, features.size(1)});
  Tensor gradient = new_like(features);

  kernels::NormBack call() const {
    return {.input = bf16(features),
            .values = values_of(values),
            .weight_gradient = f32(weight_gradient),
            .bias_gradient = f32(bias_gradient),
            .factors = f32(factors),
            .input_gradient = bf16(gradient)};
  }
};

// The trained numbers of a part as they are computed with: by operators, so that whoever cuts up
// parameters sees it.
Tensor as_weight(const Tensor& parameter) {
  return parameter.detach().to(
      torch::kBFloat16, /*non_blocking=*/false, /*copy=*/true, kPixelByPixel);
}

constexpr size_t kNumbers = 3;  // parameters of a part

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
    if (call.aside) {
      const auto [others, other_values] = through(input, *call.aside, call.path.size());
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

    variable_list results(2 + (last + 1 + (call.aside ? 1 : 0)) * kNumbers);
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
    // What reaches the input past the path.
    Tensor past;
    if (call.aside) {
      const auto& part = saved.parts[last + 1];
      const Back other{part.features, part.values};
      end.aside = other.call();
      kernels::batch_norm_backward(end, stream());
      give(last + 1, *call.aside, other, saved.input);
      past = input_gradient(engine, other.gradient, saved.input, part.weight, *call.aside, {});
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

  // What forward() kept, in its order.
  struct Saved {
    struct Part {
      Tensor weight;
      Tensor features;  // before the norm
      Tensor values;
    };

    Saved(variable_list list, const BlockCall& call) : input(list[0]) {
      size_t next = 1;
      const size_t count = call.path.size() + (call.aside ? 1 : 0);
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
    std::vector<Tensor> outputs;  // behind ReLU, of all but the last of the path
    Tensor mask;
  };
};

// The weights of 7x7 with stride 2 as those of 4x4 over cells of 2x2 pixels (kernels/stem.h): a row
// and a column of zeros before them, then cut up.
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

struct StemPlan {
  ConvEnginePtr engine;
  Layer layer;
  std::array<float, 3> scale;
  std::array<float, 3> shift;
};

class StemFunction : public torch::autograd::Function<StemFunction> {
 public:
  static Tensor forward(AutogradContext* context,
                        const StemPlan& plan,
                        const Tensor& images,
                        const Tensor& weight,
                        const Tensor& norm_weight,
                        const Tensor& norm_bias) {
    const Tensor cells = make_cells(plan, images);
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

 private:
  static Tensor make_cells(const StemPlan& plan, const Tensor& given) {
    const bool are_bytes = given.scalar_type() == torch::kUInt8;
    const Tensor images = are_bytes ? given : given.to(torch::kFloat32);
    Tensor cells = new_features(
        images, kernels::kCellChannels, images.size(2) / 2 + 3, images.size(3) / 2 + 3);
    kernels::ImageCells call{.output = bf16(cells),
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
    kernels::image_cells(call, stream());
    return cells;
  }
};

}  // namespace

ConvEnginePtr find_conv_engine(const Tensor& weight, const ConvEnginePtr& last) {
  // --sync-batchnorm says so in this place of the thread, and libtorch's operator then obeys.
  const bool shares_norms =
      c10::ThreadLocalDebugInfo::get(c10::DebugInfoKind::TEST_INFO_2) != nullptr;
  if (!weight.is_cuda() || !computes_in_bf16(weight) || shares_norms) {
    return nullptr;
  }
  return last != nullptr && last->device == weight.device()
             ? last
             : std::make_shared<ConvEngine>(weight.device());
}

Tensor fused_stem(const ConvEnginePtr& engine, const Tensor& images, const StemCall& call) {
  const StemPlan plan{engine, layer_of(call.stem), call.scale, call.shift};
  return StemFunction::apply(
      plan, images, call.stem.conv->weight, call.stem.norm->weight, call.stem.norm->bias);
}

Tensor fused_block(const ConvEnginePtr& engine,
                   const Tensor& input,
                   const std::vector<ConvNorm>& path,
                   const std::optional<ConvNorm>& aside) {
  BlockCall call{.engine = engine, .path = {}, .aside = std::nullopt};
  variable_list parameters;
  const auto add = [&parameters](const ConvNorm& part) {
    parameters.insert(parameters.end(), {part.conv->weight, part.norm->weight, part.norm->bias});
    return layer_of(part);
  };
  for (const ConvNorm& part : path) {
    call.path.push_back(add(part));
  }
  if (aside) {
    call.aside = add(*aside);
  }
  return BlockFunction::apply(call, input, at::TensorList(parameters));
}

}  // namespace lockstep::models
