// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/step_rates.h"

// Uses `high` and `time`, which belong to the same instant in a merged point: the step grows within
// a point, so its maximum is the last value. A difference that is not positive is a return to a
// checkpoint and is skipped.
namespace lockstep::report {

std::vector<double> step_rates(const std::vector<monitor::Point>& steps) {
  std::vector<double> rates;
  rates.reserve(steps.size());
  for (size_t i = 1; i < steps.size(); ++i) {
    const double done = steps[i].high - steps[i - 1].high;
    const double seconds = steps[i].time - steps[i - 1].time;
    if (done > 0 && seconds > 0) {
      rates.push_back(done / seconds);
    }
  }
  return rates;
}

}  // namespace lockstep::report
