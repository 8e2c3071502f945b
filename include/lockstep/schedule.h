// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace lockstep {

// The learning rate over time, as a factor of the base rate. A pure function of the step, so that
// a resumed run needs to know the step only. A value: copy it, compose it.
class Schedule {
 public:
  // The same factor throughout.
  static Schedule constant(double factor = 1);

  // Times `gamma` after every `every` steps.
  static Schedule step(int64_t every, double gamma);

  // Half a cosine from 1 down to `floor` over `steps`, then `floor`.
  static Schedule cosine(int64_t steps, double floor = 0);

  // A straight line from `from` to `to` over `steps`, then `to`.
  static Schedule linear(int64_t steps, double from, double to);

  // This schedule for `steps`, then `next` from its beginning.
  Schedule then(int64_t steps, const Schedule& next) const;

  // Rises in a straight line over `steps`, then this schedule from its beginning. The first step
  // has factor 1/steps of the beginning, step `steps` the whole of it.
  Schedule warmed_up(int64_t steps) const;

  // Any function of the step; `text` is for people.
  static Schedule of_factors(std::function<double(int64_t)> factor, std::string text);

  // The rates themselves, whatever the base rate is.
  static Schedule of_rates(std::function<double(int64_t)> rate, std::string text);

  // The same, and Adam's first and second beta in each step beside it.
  struct Betas {
    double first = 0;
    double second = 0;
  };
  Schedule with_betas(std::function<Betas(int64_t)> betas) const;

  // The factor in step `step`, from 0; of a schedule of rates that rate.
  double factor(int64_t step) const { return factor_(step); }

  // The learning rate in step `step` where the base rate is `base`.
  double rate(int64_t step, double base) const {
    return has_rates_ ? factor_(step) : base * factor_(step);
  }

  // The betas in step `step`, if the schedule sets them.
  std::optional<Betas> betas(int64_t step) const {
    return betas_ ? std::optional(betas_(step)) : std::nullopt;
  }

  // For people and checkpoints: "warm-up 100, then cosine 900 to 0".
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
