// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/step_model.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>
#include <set>

#include "common/base/text.h"
#include "launcher/report/least_squares.h"

// seconds(n, b) = s b + f + v (n - 1) / n + d log2(n), all coefficients non-negative.
//
// (n - 1) / n is the data volume of a ring all-reduce per worker, relative to the size of the
// gradients (2 (n - 1) / n); log2(n) is the number of rounds of a tree. Few measurements cannot
// determine four coefficients, so the model is chosen by leave-one-out error:
//
// 1. For each combination of parts, predict each measurement from all others.
// 2. Take the combination with the smallest error; an additional part must reduce it by a fifth.
// 3. Keep the combinations that are about as good as rivals. Where they disagree, the prediction is
//    uncertain, and error() includes the difference.
namespace lockstep::report {
namespace {

using Columns = std::vector<size_t>;

std::vector<double> terms(double workers, double batch) {
  return {batch, 1, (workers - 1) / workers, std::log2(workers)};
}

// Divides each row by the measured time, so that the target is 1 and least squares minimizes
// relative errors.
Matrix rows_of(std::span<const StepTime> measured) {
  Matrix rows;
  rows.reserve(measured.size());
  for (const StepTime& one : measured) {
    rows.push_back(terms(one.workers, one.batch));
    for (double& value : rows.back()) {
      value /= one.seconds;
    }
  }
  return rows;
}

// Combinations of at most `maximum` parts, those with fewer parts first. Each includes work of the
// worker itself (Sample or Fixed): communication alone is not a plausible model.
std::vector<Columns> combinations(size_t maximum) {
  std::vector<Columns> found;
  for (size_t choice = 1; choice < size_t{1} << kStepParts; ++choice) {
    Columns columns;
    columns.reserve(kStepParts);
    for (size_t i = 0; i < kStepParts; ++i) {
      if ((choice >> i & 1) != 0) {
        columns.push_back(i);
      }
    }
    constexpr size_t kOwnWork = 0b11;
    if (columns.size() <= maximum && (choice & kOwnWork) != 0) {
      found.push_back(std::move(columns));
    }
  }
  std::ranges::stable_sort(found, {}, &Columns::size);
  return found;
}

// The relative error of a measurement, predicted by a model of all others.
double missed_by(const Matrix& rows, const Columns& columns, size_t out) {
  Matrix others = rows;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(out));
  return misfit({rows[out]}, solve_nonnegative(others, columns));
}

struct Candidate {
  Columns columns;
  double left_out = std::numeric_limits<double>::infinity();
};

Candidate judge(const Matrix& rows, const Columns& columns) {
  double sum = 0;
  for (size_t out = 0; out < rows.size(); ++out) {
    const double off = missed_by(rows, columns, out);
    sum += off * off;
  }
  return {.columns = columns, .left_out = std::sqrt(sum / static_cast<double>(rows.size()))};
}

// An additional part must reduce the leave-one-out error by a fifth, and by more than rounding.
// Candidates are ordered by their number of parts, so a larger one is compared with the best
// smaller one.
Candidate choose(const std::vector<Candidate>& candidates) {
  constexpr double kGain = 0.8;
  constexpr double kRounding = 1e-7;
  Candidate best;
  for (const Candidate& one : candidates) {
    const bool is_larger = one.columns.size() > best.columns.size() && !best.columns.empty();
    if (one.left_out + kRounding < best.left_out * (is_larger ? kGain : 1)) {
      best = one;
    }
  }
  return best;
}

StepSeconds fit(const Matrix& rows, const Columns& columns) {
  const std::vector<double> found = solve_nonnegative(rows, columns);
  StepSeconds parts = {};
  std::ranges::copy(found, parts.begin());
  return parts;
}

bool has_no_own_work(const StepSeconds& parts) {
  return parts[0] == 0 && parts[1] == 0;
}

}  // namespace

double step_seconds(const StepSeconds& parts, double workers, double batch) {
  const std::vector<double> values = terms(workers, batch);
  return std::inner_product(values.begin(), values.end(), parts.begin(), 0.0);
}

// The residual alone would be too optimistic: it is 0 if there are as many parts as measurements.
double StepModel::error(double workers, double batch) const {
  double maximum = std::max(left_out, residual);
  const double mine = seconds(workers, batch);
  for (const StepSeconds& rival : rivals) {
    maximum = std::max(maximum, std::abs(step_seconds(rival, workers, batch) - mine) / mine);
  }
  return maximum;
}

double StepModel::trusted_workers() const {
  constexpr double kBad = 0.2;
  constexpr double kFar = 4;
  constexpr double kNear = 2;
  return left_out > kBad ? largest : largest * (sizes > kMinSizes ? kFar : kNear);
}

// Combinations have fewer parts than there are measurements, so that leaving one out is always
// possible. kMinDoubt keeps rivals even if the best model fits perfectly by chance.
std::optional<StepModel> find_model(std::span<const StepTime> measured) {
  std::set<double> sizes;
  size_t largest = 0;
  for (size_t i = 0; i < measured.size(); ++i) {
    sizes.insert(measured[i].workers);
    largest = measured[i].workers > measured[largest].workers ? i : largest;
  }
  if (sizes.size() < kMinSizes) {
    return std::nullopt;
  }
  const Matrix rows = rows_of(measured);
  std::vector<Candidate> candidates;
  for (const Columns& columns : combinations(measured.size() - 1)) {
    candidates.push_back(judge(rows, columns));
  }
  const Candidate best = choose(candidates);
  StepModel model{.parts = fit(rows, best.columns),
                  .sizes = static_cast<int>(sizes.size()),
                  .largest = *sizes.rbegin(),
                  .left_out = best.left_out,
                  .largest_left_out = missed_by(rows, best.columns, largest)};
  model.residual = misfit(rows, model.parts);
  constexpr double kAboutAsWell = 2;
  constexpr double kMinDoubt = 0.01;
  for (const Candidate& one : candidates) {
    const StepSeconds parts = fit(rows, one.columns);
    if (one.left_out <= kAboutAsWell * best.left_out + kMinDoubt && parts != model.parts &&
        !has_no_own_work(parts)) {
      model.rivals.push_back(parts);
    }
  }
  return model;
}

std::string describe(const StepSeconds& parts) {
  constexpr std::array<const char*, kStepParts> kTimes = {
      " x batch/worker", "", " x (n-1)/n", " x log2 n"};
  std::vector<std::string> pieces;
  pieces.reserve(kStepParts);
  for (size_t i = 0; i < kStepParts; ++i) {
    if (parts.at(i) > 0) {
      pieces.push_back(fmt::format("{:.3g} s{}", parts.at(i), kTimes.at(i)));
    }
  }
  return pieces.empty() ? "0 s" : join(pieces, " + ");
}

}  // namespace lockstep::report
