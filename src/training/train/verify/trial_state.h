// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>
#include <utility>
#include <vector>

namespace lockstep::train {

// Stores the state of a model and its optimizer. begin() restores the model before each trial; the
// destructor restores both, including the state of the optimizer. Model and optimizer must outlive
// this object.
class TrialState {
 public:
  TrialState(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  ~TrialState();
  TrialState(const TrialState&) = delete;
  TrialState& operator=(const TrialState&) = delete;

  // Restores the initial state of a trial, converted to `type`. Adds `offset` to every parameter:
  // with different offsets per rank, a trial shows whether a strategy synchronizes the workers.
  void begin(torch::ScalarType type, double offset);

 private:
  struct Saved {
    torch::Tensor tensor;
    torch::Tensor value;
    bool is_parameter;
  };
  using OptimizerState = std::decay_t<decltype(std::declval<torch::optim::Optimizer&>().state())>;

  void put_back(std::optional<torch::ScalarType> type, double offset);

  torch::optim::Optimizer& optimizer_;
  std::vector<Saved> saved_;
  OptimizerState optimizer_state_;
  std::vector<double> rates_;
};

// Disables dropout in all modules of a model as long as this object exists. names() lists the
// modules.
class QuietDropout {
 public:
  explicit QuietDropout(torch::nn::Module& model);
  ~QuietDropout();
  QuietDropout(const QuietDropout&) = delete;
  QuietDropout& operator=(const QuietDropout&) = delete;

  const std::vector<std::string>& names() const { return names_; }

 private:
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;
  std::vector<std::string> names_;
};

bool has_batch_norm(const torch::nn::Module& model);

// A tensor of the model that training changes, with its first name.
struct Moved {
  std::string name;
  torch::Tensor tensor;
};

// Returns the trained parameters and the floating-point buffers. A tensor that several modules
// share occurs once.
std::vector<Moved> moved_tensors(const torch::nn::Module& model);

}  // namespace lockstep::train
