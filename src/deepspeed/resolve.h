// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deepspeed/config.h"

namespace lockstep::deepspeed {

// What the trainer knows of a value beside the file.
template <typename T>
struct Said {
  std::optional<T> value = {};
  std::string source = {};  // "--lr", "the program"
  bool is_typed = false;    // by the user: the file must not say otherwise
};

struct Known {
  int world_size = 1;
  Said<int64_t> global_batch = {};
  Said<int64_t> batch_per_worker = {};  // of a whole step
  Said<int64_t> accumulate = {};
  Said<double> clip = {};
  Said<std::string> precision = {};  // fp32, bf16 or fp16
  Said<std::string> optimizer = {};
  Said<double> lr = {};
  Said<double> momentum = {};
  Said<double> beta1 = {};
  Said<double> beta2 = {};
  Said<double> epsilon = {};
  Said<double> weight_decay = {};
  Said<std::string> schedule = {};
  Said<int64_t> warmup_steps = {};
  Said<int64_t> total_steps = {};
};

// What was decided where the file leaves it open: "gradient_clipping: auto -> 1 (from --clip)".
using Decisions = std::vector<std::string>;

// Each fills in what the file leaves open ("auto", or nothing) in its part of the configuration.
// Throws an Error (64) that names both where the file and a flag say different things, and one that
// shows the arithmetic where batch sizes do not fit.
Decisions resolve_batch(Config& config, const Known& known);
Decisions resolve_precision(Config& config, const Known& known);
Decisions resolve_clipping(Config& config, const Known& known);
Decisions resolve_optimizer(Config& config, const Known& known);
Decisions resolve_scheduler(Config& config, const Known& known);
Decisions resolve_zero(Config& config);

struct Resolved {
  Config config;
  Decisions decisions;
};

// All of the above.
Resolved resolve(Config config, const Known& known);

}  // namespace lockstep::deepspeed
