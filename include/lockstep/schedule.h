// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

// A learning rate schedule: a factor of the base learning rate for each step. It is a pure function
// of the step, so that a resumed run only needs to know the step.
//
//   const auto schedule = Schedule::cosine(900).warmed_up(100);
//   trainer.set_schedule(schedule);
//   schedule.factor(0);   // 0.01
//   schedule.factor(99);  // 1
//
// A Schedule is an immutable value: copy and compose it freely. Concurrent calls are safe if the
// functions passed to of_factors(), of_rates() and with_betas() are. Lengths in steps must be
// positive; the functions below throw an Error otherwise.
class Schedule {
 public:
  // The same factor in every step.
  static Schedule constant(double factor = 1);

  // Multiplies the factor by `gamma` after every `every` steps.
  static Schedule step(int64_t every, double gamma);

  // Half a cosine from 1 to `floor` over `steps`, then `floor`.
  static Schedule cosine(int64_t steps, double floor = 0);

  // Linear interpolation from `from` to `to` over `steps`, then `to`.
  static Schedule linear(int64_t steps, double from, double to);

  // Returns this schedule for the first `steps` steps, followed by `next` from its first step.
  Schedule then(int64_t steps, const Schedule& next) const;

  // Returns a linear warm-up over `steps` steps, followed by this schedule from its first step.
  // Step i of the warm-up (from 0) has the factor (i + 1) / steps times the factor of the first
  // step of this schedule.
  Schedule warmed_up(int64_t steps) const;

  // A schedule with the factor `factor(step)`. `text` describes it in output and checkpoints.
  static Schedule of_factors(std::function<double(int64_t)> factor, std::string text);

  // A schedule with the absolute learning rate `rate(step)`; the base learning rate is ignored.
  static Schedule of_rates(std::function<double(int64_t)> rate, std::string text);

  // The two betas of Adam.
  struct Betas {
    double first = 0;
    double second = 0;
  };

  // Returns this schedule with the additional betas `betas(step)`, which apply to adam, adamw and
  // lamb.
  Schedule with_betas(std::function<Betas(int64_t)> betas) const;

  // Returns the factor of `step`, counted from 0; for a schedule of rates, the rate.
  double factor(int64_t step) const { return factor_(step); }

  // Returns the learning rate of `step` for the base learning rate `base`.
  double rate(int64_t step, double base) const {
    return has_rates_ ? factor_(step) : base * factor_(step);
  }

  // Returns the betas of `step`, or nothing if the schedule does not set them.
  std::optional<Betas> betas(int64_t step) const {
    return betas_ ? std::optional(betas_(step)) : std::nullopt;
  }

  // A description for output and checkpoints: "warm-up 100, then cosine 900 to 0".
  const std::string& text() const { return text_; }

 private:
  Schedule(std::function<double(int64_t)> factor, std::string text)
      : factor_(std::move(factor)), text_(std::move(text)) {}

  std::function<double(int64_t)> factor_;
  std::string text_;
  bool has_rates_ = false;
  std::function<Betas(int64_t)> betas_;
};

}  // namespace lockstep
