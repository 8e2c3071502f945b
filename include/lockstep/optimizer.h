// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

namespace lockstep {

struct OptimizerOptions {
  std::string name = "sgd";  // sgd, adam or adamw
  double lr = 0.01;
  double momentum = 0.9;  // sgd only
  double weight_decay = 0;
  double beta1 = 0.9;  // adam, adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

// One of libtorch's optimizers by name; throws an Error that lists the names. A tensor that comes
// twice, as tied weights do, is one parameter.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                        const OptimizerOptions& options);

// Scales all gradients so that their norm, taken over all of them together, is at most `most`.
// Returns the norm before. Parameters without a gradient do not count.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double most);

// The learning rate of each parameter group.
std::vector<double> learning_rates(torch::optim::Optimizer& optimizer);
void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

// How the learning rate follows the number of workers; never unless asked for.
enum class LrScaling { None, Linear, Sqrt };

LrScaling parse_lr_scaling(std::string_view name);

// 1, W or sqrt(W).
double lr_factor(LrScaling scaling, int workers);

}  // namespace lockstep
