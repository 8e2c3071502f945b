// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/schedule.h"

// DeepSpeed's five schedulers, one value per optimizer step as its classes compute them: its
// scheduler starts with the value of "step -1" and moves on after each optimizer step.
namespace lockstep {

struct WarmupOptions {
  double min_lr = 0;
  double max_lr = 1e-3;
  int64_t warmup_steps = 1000;  // at least 2 are taken
  bool is_linear = false;       // else logarithmic
};

// From min_lr up to max_lr, which then stays.
Schedule warmup_lr(const WarmupOptions& options);

// The same, then down in a straight line to min_lr at `total_steps`.
Schedule warmup_decay_lr(const WarmupOptions& options, int64_t total_steps);

struct WarmupCosineOptions {
  int64_t total_steps = 0;
  int64_t warmup_steps = 1000;
  double warmup_min_ratio = 0;  // of the base rate
  double cos_min_ratio = 1e-4;
  bool is_linear = false;
};

// Factors of the base rate; the first step has none at all, as in DeepSpeed. Throws an Error where
// no step is left for the cosine.
Schedule warmup_cosine_lr(const WarmupCosineOptions& options);

struct OneCycleOptions {
  double min_lr = 0;
  double max_lr = 0;
  double decay_lr_rate = 0;
  int64_t first_steps = 2000;
  std::optional<int64_t> second_steps = {};  // absent: as the first
  int64_t decay_steps = 0;                   // 0: no decay after the cycle
  bool cycles_momentum = true;
  double min_momentum = 0.8;
  double max_momentum = 0.9;
  double decay_momentum_rate = 0;
};

// Up and down once, then the decay; momentum is Adam's first beta, and runs the other way.
Schedule one_cycle(const OneCycleOptions& options);

struct RangeTestOptions {
  double min_lr = 1e-3;
  int64_t step_size = 2000;
  double step_rate = 1;
  bool is_staircase = false;
};

// Up without end.
Schedule lr_range_test(const RangeTestOptions& options);

}  // namespace lockstep
