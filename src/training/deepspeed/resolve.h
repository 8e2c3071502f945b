// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "training/deepspeed/config.h"

namespace lockstep::deepspeed {

// A value that is known from outside the file.
template <typename T>
struct Said {
  std::optional<T> value = {};
  std::string source = {};  // "--lr", "the program"
  bool is_typed = false;    // given by the user: the file must not contradict it
};

struct Known {
  int world_size = 1;
  Said<int64_t> global_batch = {};
  Said<int64_t> batch_per_worker = {};  // samples of a worker per step
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

// Values that were chosen for "auto": "gradient_clipping: auto -> 1 (from --clip)".
using Decisions = std::vector<std::string>;

// Each function resolves the open values ("auto" or absent) of its part of the configuration.
// Throws an Error (64) that shows both values if the file and a flag conflict, and one that shows
// the arithmetic if batch sizes do not match.
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

// Calls all of the above.
Resolved resolve(Config config, const Known& known);

}  // namespace lockstep::deepspeed
