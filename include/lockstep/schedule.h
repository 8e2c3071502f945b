// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

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

  // The factor in step `step`, from 0.
  double factor(int64_t step) const { return factor_(step); }

  // For people and checkpoints: "warm-up 100, then cosine 900 to 0".
  const std::string& text() const { return text_; }

 private:
  Schedule(std::function<double(int64_t)> factor, std::string text)
      : factor_(std::move(factor)), text_(std::move(text)) {}

  std::function<double(int64_t)> factor_;
  std::string text_;
};

}  // namespace lockstep
