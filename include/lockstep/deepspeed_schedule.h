// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/schedule.h"

// The five learning rate schedulers of DeepSpeed (deepspeed/runtime/lr_schedules.py), with one
// value per optimizer step as DeepSpeed computes it: a scheduler starts with the value of "step
// -1" and advances after each optimizer step.
//
//   trainer.set_schedule(lockstep::warmup_decay_lr({.max_lr = 3e-4, .warmup_steps = 200}, 10000));
//
// The names and defaults of the options follow the keys of ds_config.json. A scheduler in that
// file needs no code: docs/deepspeed.md.
namespace lockstep {

// Options of WarmupLR and WarmupDecayLR. Learning rates are absolute: the base learning rate of the
// optimizer has no effect.
struct WarmupOptions {
  double min_lr = 0;            // the learning rate before the warm-up
  double max_lr = 1e-3;         // the learning rate after the warm-up
  int64_t warmup_steps = 1000;  // values below 2 count as 2
  bool is_linear = false;       // false: logarithmic
};

// WarmupLR: rises from min_lr to max_lr, then stays at max_lr. Like all functions here, it returns
// a Schedule that has no state and can be used by any thread.
Schedule warmup_lr(const WarmupOptions& options);

// WarmupDecayLR: rises like warmup_lr(), then decays linearly to min_lr at step `total_steps`.
Schedule warmup_decay_lr(const WarmupOptions& options, int64_t total_steps);

// Options of WarmupCosineLR. All ratios are factors of the base learning rate of the optimizer.
// The factor rises from warmup_min_ratio to 1 over warmup_steps, then falls to cos_min_ratio at
// total_steps.
struct WarmupCosineOptions {
  int64_t total_steps = 0;  // of the training; must exceed warmup_steps
  int64_t warmup_steps = 1000;
  double warmup_min_ratio = 0;
  double cos_min_ratio = 1e-4;
  bool is_linear = false;  // false: logarithmic
};

// WarmupCosineLR: a warm-up followed by half a cosine. As in DeepSpeed, the learning rate of the
// first step is 0. Throws an Error if the warm-up leaves no steps for the cosine.
Schedule warmup_cosine_lr(const WarmupCosineOptions& options);

// Options of OneCycle. Learning rates are absolute. The learning rate rises from min_lr to max_lr
// over first_steps and returns to min_lr over second_steps. Afterwards it is
// min_lr / (1 + decay_lr_rate * n), where n is the number of steps since then divided by
// decay_steps. The momentum is then max_momentum * (1 + decay_momentum_rate * n).
struct OneCycleOptions {
  double min_lr = 0;
  double max_lr = 0;
  double decay_lr_rate = 0;
  int64_t first_steps = 2000;                // length of the rise
  std::optional<int64_t> second_steps = {};  // length of the fall; absent: first_steps
  int64_t decay_steps = 0;                   // 0: no decay after the cycle
  bool cycles_momentum = true;
  double min_momentum = 0.8;
  double max_momentum = 0.9;
  double decay_momentum_rate = 0;
};

// OneCycle: rises and falls once, then decays. The momentum is the first beta of Adam; it falls
// while the learning rate rises, and rises while the learning rate falls.
Schedule one_cycle(const OneCycleOptions& options);

// Options of LRRangeTest. The learning rate is min_lr * (1 + step_rate * n), where n is the number
// of steps divided by step_size; with is_staircase, n is rounded down.
//
//   trainer.set_schedule(lockstep::lr_range_test({.min_lr = 1e-4, .step_size = 100}));
struct RangeTestOptions {
  double min_lr = 1e-3;
  int64_t step_size = 2000;
  double step_rate = 1;
  bool is_staircase = false;
};

// LRRangeTest: rises without limit, to find the largest learning rate that still converges.
Schedule lr_range_test(const RangeTestOptions& options);

}  // namespace lockstep
