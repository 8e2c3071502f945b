// SPDX-License-Identifier: Apache-2.0
#include "lockstep/deepspeed_schedule.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

#include "lockstep/error.h"

namespace lockstep {
namespace {

// The schedules of deepspeed/runtime/lr_schedules.py, including their quirks: the same
// ds_config.json must give the same learning rates. DeepSpeed counts steps from -1 and sets the
// rate after a step, so its step t is `step - 1` here, and step 0 has the initial value.

// Completed fraction of the warm-up after `done` steps; 1: complete.
double warmed(int64_t done, int64_t steps, bool is_linear) {
  if (done >= steps) {
    return 1;
  }
  return is_linear ? static_cast<double>(done) / static_cast<double>(steps)
                   : std::log(static_cast<double>(done + 1)) / std::log(static_cast<double>(steps));
}

// DeepSpeed divides by the logarithm of the number of steps.
int64_t at_least_two(int64_t steps) {
  return std::max<int64_t>(2, steps);
}

const char* shape_of(bool is_linear) {
  return is_linear ? "linear" : "log";
}

// Decay of the cycle as in DeepSpeed: disabled without steps or without a rate.
bool decays(const OneCycleOptions& options, double rate) {
  return options.decay_steps != 0 && rate != 0;
}

}  // namespace

Schedule warmup_lr(const WarmupOptions& options) {
  const int64_t steps = at_least_two(options.warmup_steps);
  return Schedule::of_rates(
      [options, steps](int64_t step) {
        if (step == 0) {
          return options.min_lr;
        }
        return options.min_lr +
               (options.max_lr - options.min_lr) * warmed(step - 1, steps, options.is_linear);
      },
      fmt::format("WarmupLR {} to {} in {} steps ({})",
                  options.min_lr,
                  options.max_lr,
                  steps,
                  shape_of(options.is_linear)));
}

Schedule warmup_decay_lr(const WarmupOptions& options, int64_t total_steps) {
  const int64_t steps = at_least_two(options.warmup_steps);
  return Schedule::of_rates(
      [options, steps, total_steps](int64_t step) {
        if (step == 0) {
          return options.min_lr;
        }
        const int64_t done = step - 1;
        const double down = std::max(0.0, static_cast<double>(total_steps - done)) /
                            static_cast<double>(std::max<int64_t>(1, total_steps - steps));
        const double part = done < steps ? warmed(done, steps, options.is_linear) : down;
        return options.min_lr + (options.max_lr - options.min_lr) * part;
      },
      fmt::format("WarmupDecayLR {} to {} in {} steps ({}), down until step {}",
                  options.min_lr,
                  options.max_lr,
                  steps,
                  shape_of(options.is_linear),
                  total_steps));
}

Schedule warmup_cosine_lr(const WarmupCosineOptions& options) {
  const int64_t steps = at_least_two(options.warmup_steps);
  if (options.total_steps <= steps) {
    throw Error(ExitCode::Usage, "WarmupCosineLR needs more total steps than warm-up steps")
        .fact("total_num_steps", std::to_string(options.total_steps))
        .fact("warmup_num_steps", std::to_string(steps))
        .hint(fmt::format("\"total_num_steps\" above {}", steps));
  }
  return Schedule::of_factors(
      [options, steps](int64_t step) {
        if (step == 0) {
          return 0.0;
        }
        const int64_t done = step - 1;
        if (done < steps) {
          return options.warmup_min_ratio +
                 (1 - options.warmup_min_ratio) * warmed(done, steps, options.is_linear);
        }
        // Beyond total_steps the cosine continues and rises again, as in DeepSpeed.
        const double angle = std::numbers::pi * static_cast<double>(done - steps + 1) /
                             static_cast<double>(options.total_steps - steps);
        return std::max(
            0.0, options.cos_min_ratio + (1 - options.cos_min_ratio) * (1 + std::cos(angle)) / 2);
      },
      fmt::format("WarmupCosineLR, up in {} steps ({}), down to {} in {}",
                  steps,
                  shape_of(options.is_linear),
                  options.cos_min_ratio,
                  options.total_steps));
}

Schedule one_cycle(const OneCycleOptions& options) {
  const auto first = static_cast<double>(options.first_steps);
  const double total =
      first + static_cast<double>(options.second_steps.value_or(options.first_steps));
  const double turn = first / total;
  // Position in the cycle after `step` steps: 0 at its ends, 1 at the peak.
  const auto height = [total, turn](int64_t step) {
    const double x = std::fmod(static_cast<double>(step) / total, 1.0);
    return x <= turn ? x / turn : (x - 1) / (turn - 1);
  };
  // Completed steps of the decay, in units of decay_steps; below 0: still in the cycle.
  const auto decayed = [options, total](int64_t step) {
    const double done = static_cast<double>(step - 1) - total;
    const auto unit = static_cast<double>(std::max<int64_t>(1, options.decay_steps));
    return done < 0 ? -1 : (done + 1) / unit;
  };
  const Schedule rates = Schedule::of_rates(
      [options, height, decayed](int64_t step) {
        const double decay = step == 0 ? -1 : decayed(step);
        if (decay < 0) {
          return options.min_lr + (options.max_lr - options.min_lr) * height(step);
        }
        return decays(options, options.decay_lr_rate)
                   ? options.min_lr / (1 + options.decay_lr_rate * decay)
                   : options.min_lr;
      },
      fmt::format("OneCycle {} to {} and back in {} steps", options.min_lr, options.max_lr, total));
  if (!options.cycles_momentum) {
    return rates;
  }
  return rates.with_betas([options, height, decayed](int64_t step) -> Schedule::Betas {
    constexpr double kSecondBeta = 0.99;  // as in DeepSpeed, independent of the optimizer
    if (step == 0) {
      return {options.min_momentum, kSecondBeta};
    }
    const double decay = decayed(step);
    if (decay < 0) {
      return {options.max_momentum - (options.max_momentum - options.min_momentum) * height(step),
              kSecondBeta};
    }
    const double factor =
        decays(options, options.decay_momentum_rate) ? 1 + options.decay_momentum_rate * decay : 1;
    return {options.max_momentum * factor, kSecondBeta};
  });
}

Schedule lr_range_test(const RangeTestOptions& options) {
  return Schedule::of_rates(
      [options](int64_t step) {
        const double all = static_cast<double>(step) / static_cast<double>(options.step_size);
        return options.min_lr *
               (1 + options.step_rate * (options.is_staircase ? std::floor(all) : all));
      },
      fmt::format("LRRangeTest from {}", options.min_lr));
}

}  // namespace lockstep
