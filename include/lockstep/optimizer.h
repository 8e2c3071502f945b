// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

namespace lockstep {

struct OptimizerOptions {
  std::string name = "sgd";  // sgd, adam, adamw, lamb or adagrad
  double lr = 0.01;
  double momentum = 0.9;  // sgd only
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
  double beta1 = 0.9;  // adam, adamw, lamb
  double beta2 = 0.999;
  double epsilon = 1e-8;
  bool bias_correction = true;  // lamb
  double max_coeff = 10;        // lamb: the trust ratio stays between these
  double min_coeff = 0.01;
  bool eps_inside_sqrt = false;
  double lr_decay = 0;  // adagrad
  double initial_accumulator_value = 0;
  // adam, adamw: one pass over main memory; for parameters on the CPU.
  bool vectorised = false;
};

// An optimizer by name; throws an Error that lists the names. A tensor that comes
// twice, as tied weights do, is one parameter.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                        const OptimizerOptions& options);

// The same for all parameters of `model`, of which those with fewer than two dimensions (biases and
// norms) are a group without weight decay.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(torch::nn::Module& model,
                                                        const OptimizerOptions& options);

// Scales all gradients so that their norm, taken over all of them together, is at most `most`.
// Returns the norm before. Parameters without a gradient do not count.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double most);

// The learning rate of each parameter group.
std::vector<double> learning_rates(torch::optim::Optimizer& optimizer);
void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

// Both betas of every group, where the optimizer has some (adam, adamw, lamb); else nothing is
// done.
void set_betas(torch::optim::Optimizer& optimizer, double beta1, double beta2);

// How the learning rate follows the number of workers; never unless asked for.
enum class LrScaling { None, Linear, Sqrt };

LrScaling parse_lr_scaling(std::string_view name);

// 1, W or sqrt(W).
double lr_factor(LrScaling scaling, int workers);

}  // namespace lockstep
