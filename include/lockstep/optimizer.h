// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <vector>

// Optimizers by name, and what a training loop needs around them.
//
//   auto adam = lockstep::make_optimizer(net->parameters(), {.name = "adam", .lr = 1e-3});
//   ...
//   lockstep::clip_gradients(net->parameters(), 1.0);
//   adam->step();
//
// The functions keep no state. Use an optimizer and its parameters from one thread.
namespace lockstep {

// The type of an optimizer and its hyperparameters. Options of other optimizers are ignored.
// Symbols and defaults are those of PyTorch and, for LAMB, of DeepSpeed.
struct OptimizerOptions {
  // ---- behaviour

  std::string name = "sgd";  // sgd, adam, adamw, lamb, adagrad or muon
  double lr = 0.01;
  // sgd
  double momentum = 0.9;
  double dampening = 0;
  bool nesterov = false;
  // all optimizers
  double weight_decay = 0;
  // adam, adamw, lamb, and AdamW within muon
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // lamb; the trust ratio is clamped to [min_coeff, max_coeff]
  bool bias_correction = true;
  double max_coeff = 10;
  double min_coeff = 0.01;
  bool eps_inside_sqrt = false;
  // adagrad
  double lr_decay = 0;
  double initial_accumulator_value = 0;
  // muon; `lr` is the learning rate of the matrices. AdamW updates all other parameters, with
  // lr * adamw_lr_factor.
  std::vector<torch::Tensor> matrices = {};  // empty: hidden_matrices() of the model
  double adamw_lr_factor = 0.1;

  // ---- performance

  // adam, adamw: vectorized implementation for parameters on the CPU that passes over memory once.
  bool vectorised = false;
};

// Creates an optimizer for `parameters`. A tensor that occurs twice, as tied weights do, is one
// parameter. Throws an Error that lists the names if options.name is not one of them. muon needs
// options.matrices here, because a list does not show the roles of its parameters.
//
// A training program normally calls Session::make_optimizer() instead, which applies the options
// of the command line.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(std::vector<torch::Tensor> parameters,
                                                        const OptimizerOptions& options);

// Creates an optimizer for all parameters of `model`, in two groups: weight decay applies only to
// parameters with at least two dimensions, not to biases and norms. muon has a third group, first:
// its matrices.
std::unique_ptr<torch::optim::Optimizer> make_optimizer(torch::nn::Module& model,
                                                        const OptimizerOptions& options);

// Returns the parameters of `model` that muon should update: those with at least two dimensions,
// except embeddings (torch::nn::Embedding) and the output layer. The output layer is the last
// module with parameters of its own.
//
//   session.make_optimizer(net.parameters(), {.matrices = lockstep::hidden_matrices(net)});
std::vector<torch::Tensor> hidden_matrices(torch::nn::Module& model);

// Scales all gradients by the same factor so that their total norm is at most `max_norm`. Returns
// the norm before scaling, and 0 if there are no gradients. Parameters without a gradient are
// ignored. Waits for the GPU.
double clip_gradients(const std::vector<torch::Tensor>& parameters, double max_norm);

// Get and set the learning rate of each parameter group, in the order of the groups. `rates` must
// have one element per group; throws an Error (Bug) otherwise.
std::vector<double> learning_rates(torch::optim::Optimizer& optimizer);
void set_learning_rates(torch::optim::Optimizer& optimizer, const std::vector<double>& rates);

// Sets both betas in all groups of adam, adamw, lamb or muon (there for AdamW). Has no effect on
// other optimizers.
void set_betas(torch::optim::Optimizer& optimizer, double beta1, double beta2);

// How the learning rate is scaled with the world size (--scale-lr). The default is None.
enum class LrScaling { None, Linear, Sqrt };

// Parses "none", "linear" or "sqrt"; throws an Error for other names.
LrScaling parse_lr_scaling(std::string_view name);

// Returns the factor of the learning rate for `workers` workers W: 1, W or sqrt(W).
double lr_factor(LrScaling scaling, int workers);

}  // namespace lockstep
