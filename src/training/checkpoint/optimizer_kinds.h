// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/optim.h>
#include <torch/types.h>

#include "lockstep/error.h"
#include "lockstep/lamb.h"
#include "lockstep/muon.h"

// The fields of each type of optimizer, listed once for saving and for loading: `archive` is called
// with the name and a reference for each option of a group and each state value of a parameter.
namespace lockstep::checkpoint {

struct Sgd {
  using Optimizer = torch::optim::SGD;
  using Options = torch::optim::SGDOptions;
  using State = torch::optim::SGDParamState;
  static constexpr const char* kName = "SGD";

  template <typename Archive>
  static void options(Options& o, Archive& archive) {
    archive("lr", o.lr());
    archive("momentum", o.momentum());
    archive("dampening", o.dampening());
    archive("weight_decay", o.weight_decay());
    archive("nesterov", o.nesterov());
  }
  template <typename Archive>
  static void state(State& s, Archive& archive) {
    archive("momentum_buffer", s.momentum_buffer());
  }
};

template <typename OptimizerType, typename OptionsType, typename StateType>
struct AdamLike {
  using Optimizer = OptimizerType;
  using Options = OptionsType;
  using State = StateType;

  template <typename Archive>
  static void options(Options& o, Archive& archive) {
    archive("lr", o.lr());
    archive("betas", o.betas());
    archive("eps", o.eps());
    archive("weight_decay", o.weight_decay());
    archive("amsgrad", o.amsgrad());
  }
  template <typename Archive>
  static void state(State& s, Archive& archive) {
    archive("step", s.step());
    archive("exp_avg", s.exp_avg());
    archive("exp_avg_sq", s.exp_avg_sq());
    archive("max_exp_avg_sq", s.max_exp_avg_sq());
  }
};

struct Adam
    : AdamLike<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState> {
  static constexpr const char* kName = "Adam";
};
struct AdamW
    : AdamLike<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState> {
  static constexpr const char* kName = "AdamW";
};

struct LambKind {
  using Optimizer = Lamb;
  using Options = LambOptions;
  using State = LambParamState;
  static constexpr const char* kName = "Lamb";

  template <typename Archive>
  static void options(Options& o, Archive& archive) {
    archive("lr", o.lr());
    archive("betas", o.betas());
    archive("eps", o.eps());
    archive("weight_decay", o.weight_decay());
    archive("max_coeff", o.max_coeff());
    archive("min_coeff", o.min_coeff());
    archive("bias_correction", o.bias_correction());
    archive("eps_inside_sqrt", o.eps_inside_sqrt());
  }
  template <typename Archive>
  static void state(State& s, Archive& archive) {
    archive("step", s.step());
    archive("exp_avg", s.exp_avg());
    archive("exp_avg_sq", s.exp_avg_sq());
  }
};

struct MuonKind {
  using Optimizer = Muon;
  using Options = MuonOptions;
  using State = MuonParamState;
  static constexpr const char* kName = "Muon";

  template <typename Archive>
  static void options(Options& o, Archive& archive) {
    archive("lr", o.lr());
    archive("weight_decay", o.weight_decay());
    archive("is_matrix", o.is_matrix());
    archive("momentum", o.momentum());
    archive("betas", o.betas());
    archive("eps", o.eps());
  }
  template <typename Archive>
  static void state(State& s, Archive& archive) {
    archive("step", s.step());
    archive("exp_avg", s.exp_avg());
    archive("exp_avg_sq", s.exp_avg_sq());
  }
};

struct Adagrad {
  using Optimizer = torch::optim::Adagrad;
  using Options = torch::optim::AdagradOptions;
  using State = torch::optim::AdagradParamState;
  static constexpr const char* kName = "Adagrad";

  template <typename Archive>
  static void options(Options& o, Archive& archive) {
    archive("lr", o.lr());
    archive("lr_decay", o.lr_decay());
    archive("weight_decay", o.weight_decay());
    archive("initial_accumulator_value", o.initial_accumulator_value());
    archive("eps", o.eps());
  }
  template <typename Archive>
  static void state(State& s, Archive& archive) {
    archive("step", s.step());
    archive("sum", s.sum());
  }
};

// Calls `body` with the Kind of the optimizer.
template <typename Body>
auto with_kind(const torch::optim::Optimizer& optimizer, Body body) {
  if (dynamic_cast<const torch::optim::SGD*>(&optimizer) != nullptr) {
    return body(Sgd());
  }
  if (dynamic_cast<const torch::optim::AdamW*>(&optimizer) != nullptr) {
    return body(AdamW());
  }
  if (dynamic_cast<const torch::optim::Adam*>(&optimizer) != nullptr) {
    return body(Adam());
  }
  if (dynamic_cast<const Lamb*>(&optimizer) != nullptr) {
    return body(LambKind());
  }
  if (dynamic_cast<const torch::optim::Adagrad*>(&optimizer) != nullptr) {
    return body(Adagrad());
  }
  if (dynamic_cast<const Muon*>(&optimizer) != nullptr) {
    return body(MuonKind());
  }
  throw Error(ExitCode::Usage, "cannot save or load the state of this optimizer")
      .fact("available", "SGD, Adam, AdamW, Lamb, Adagrad, Muon");
}

}  // namespace lockstep::checkpoint
