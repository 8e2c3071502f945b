// SPDX-License-Identifier: Apache-2.0
#include "lockstep/schedule.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numbers>

#include "lockstep/error.h"

namespace lockstep {
namespace {

int64_t require_steps(int64_t steps, const char* what) {
  if (steps < 1) {
    throw Error(ExitCode::Usage, fmt::format("a {} schedule cannot have {} steps", what, steps))
        .fact("expected", "at least one step");
  }
  return steps;
}

// Completed fraction of `steps`, from 0 to 1.
double progress(int64_t step, int64_t steps) {
  return static_cast<double>(std::clamp<int64_t>(step, 0, steps)) / static_cast<double>(steps);
}

}  // namespace

Schedule Schedule::constant(double factor) {
  return {[factor](int64_t /*step*/) { return factor; }, fmt::format("constant {}", factor)};
}

Schedule Schedule::step(int64_t every, double gamma) {
  require_steps(every, "step");
  return {[every, gamma](int64_t step) {
            return std::pow(gamma, static_cast<double>(std::max<int64_t>(step, 0) / every));
          },
          fmt::format("times {} every {}", gamma, every)};
}

Schedule Schedule::cosine(int64_t steps, double floor) {
  require_steps(steps, "cosine");
  return {[steps, floor](int64_t step) {
            const double angle = std::numbers::pi * progress(step, steps);
            return floor + (1 - floor) * 0.5 * (1 + std::cos(angle));
          },
          fmt::format("cosine {} to {}", steps, floor)};
}

Schedule Schedule::linear(int64_t steps, double from, double to) {
  require_steps(steps, "linear");
  return {[steps, from, to](int64_t step) { return from + (to - from) * progress(step, steps); },
          fmt::format("linear {} from {} to {}", steps, from, to)};
}

Schedule Schedule::of_factors(std::function<double(int64_t)> factor, std::string text) {
  return {std::move(factor), std::move(text)};
}

Schedule Schedule::of_rates(std::function<double(int64_t)> rate, std::string text) {
  Schedule schedule(std::move(rate), std::move(text));
  schedule.has_rates_ = true;
  return schedule;
}

Schedule Schedule::with_betas(std::function<Betas(int64_t)> betas) const {
  Schedule schedule = *this;
  schedule.betas_ = std::move(betas);
  return schedule;
}

Schedule Schedule::then(int64_t steps, const Schedule& next) const {
  require_steps(steps, "composed");
  // By value: the composed schedule can outlive both parts.
  return {[first = factor_, second = next.factor_, steps](int64_t step) {
            return step < steps ? first(step) : second(step - steps);
          },
          fmt::format("{}, then {}", text_, next.text_)};
}

// Rises linearly to the first factor of this schedule, which then starts at its step 0. The first
// step has 1 / steps of it, not 0: a step with rate 0 would be wasted.
Schedule Schedule::warmed_up(int64_t steps) const {
  require_steps(steps, "warm-up");
  const double peak = factor_(0);
  Schedule rise = {[peak, steps](int64_t step) { return peak * progress(step + 1, steps); },
                   fmt::format("warm-up {}", steps)};
  return rise.then(steps, *this);
}

}  // namespace lockstep
