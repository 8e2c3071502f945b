// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <torch/torch.h>
#include <utility>
#include <vector>

namespace lockstep::train {

// A model and its optimizer as they are now, to come back to before each trial and, the optimizer's
// own state too, at the end of this object, which both must outlive.
class TrialState {
 public:
  TrialState(torch::nn::Module& model, torch::optim::Optimizer& optimizer);
  ~TrialState();
  TrialState(const TrialState&) = delete;
  TrialState& operator=(const TrialState&) = delete;

  // The state in which a trial begins, in `type`; every parameter moved by `offset`, which shows
  // whether a strategy brings the workers together.
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

// Switches dropout off in every module of it, until the end of this object; names() are theirs.
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

// A tensor of the model that training moves, by its first name.
struct Moved {
  std::string name;
  torch::Tensor tensor;
};

// Trained parameters and floating buffers, each once even where several modules share it.
std::vector<Moved> moved_tensors(const torch::nn::Module& model);

}  // namespace lockstep::train
