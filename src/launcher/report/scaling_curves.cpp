// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling_curves.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "common/base/median.h"

// Which sizes form a curve, for example with workers x global batch:
//
//   2 x 256   4 x 256   8 x 256     strong: global batch 256
//   2 x 256   4 x 512   8 x 1024    weak: 128 per worker
//
// 2 x 256 is part of both. The number of nodes is not part of a size: 8 workers on one node and 8
// on two nodes are one size, and their difference appears as its spread.
namespace lockstep::report {
namespace {

std::vector<double> values_of(std::span<const RunMeasure> runs, double RunMeasure::*field) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const RunMeasure& run : runs) {
    values.push_back(run.*field);
  }
  return values;
}

// The median of the runs that have a value.
std::optional<double> median_of_known(std::span<const RunMeasure> runs,
                                      std::optional<double> RunMeasure::*field) {
  std::vector<double> values;
  values.reserve(runs.size());
  for (const RunMeasure& run : runs) {
    if (run.*field) {
      values.push_back(*(run.*field));
    }
  }
  return values.empty() ? std::nullopt : std::optional(median(values));
}

ScalingSize size_of(std::span<const RunMeasure> runs) {
  const std::vector<double> rates = values_of(runs, &RunMeasure::samples_per_second);
  const auto [slowest, fastest] = std::ranges::minmax(rates);
  const double middle = median(rates);
  return {.workers = runs.front().workers,
          .nodes = runs.front().nodes,
          .gpus = runs.front().gpus,
          .global_batch = runs.front().global_batch,
          .runs = static_cast<int>(runs.size()),
          .samples_per_second = middle,
          .spread = runs.size() == 1 ? runs.front().spread : (fastest - slowest) / 2 / middle,
          .step_seconds = median(values_of(runs, &RunMeasure::step_seconds)),
          .exchange_share = median_of_known(runs, &RunMeasure::exchange_share),
          .joules_per_sample = median_of_known(runs, &RunMeasure::joules_per_sample)};
}

double per_worker(const ScalingSize& size) {
  return static_cast<double>(size.global_batch) / size.workers;
}

double global(const ScalingSize& size) {
  return static_cast<double>(size.global_batch);
}

bool has_two_sizes(const std::vector<ScalingSize>& sizes) {
  return std::ranges::any_of(
      sizes, [&](const ScalingSize& size) { return size.workers != sizes.front().workers; });
}

void compare(ScalingCurve& curve) {
  std::ranges::stable_sort(curve.measured, {}, &ScalingSize::workers);
  const ScalingSize smallest = curve.measured.front();
  for (ScalingSize& size : curve.measured) {
    set_speed_up(size, smallest);
  }
}

using BatchOf = double (*)(const ScalingSize& size);

// Curves of sizes that have the same batch, by `batch_of`, and different numbers of workers.
void add_curves(std::vector<ScalingCurve>& curves,
                std::span<const ScalingSize> sizes,
                ScalingKind kind,
                BatchOf batch_of) {
  std::map<double, std::vector<ScalingSize>> same;
  for (const ScalingSize& size : sizes) {
    if (size.global_batch > 0) {
      same[batch_of(size)].push_back(size);
    }
  }
  for (const auto& [batch, members] : same) {
    if (has_two_sizes(members)) {
      curves.push_back({.kind = kind, .batch = batch, .measured = members});
    }
  }
}

// Workers and batch identify a size: sizes_of() returns each pair once.
bool is_in(std::span<const ScalingCurve> curves, const ScalingSize& size) {
  return std::ranges::any_of(curves, [&](const ScalingCurve& curve) {
    return std::ranges::any_of(curve.measured, [&](const ScalingSize& placed) {
      return placed.workers == size.workers && placed.global_batch == size.global_batch;
    });
  });
}

}  // namespace

void set_speed_up(ScalingSize& size, const ScalingSize& smallest) {
  size.speed_up = size.samples_per_second / smallest.samples_per_second;
  size.efficiency = size.speed_up * smallest.workers / size.workers;
}

std::vector<ScalingSize> sizes_of(std::span<const RunMeasure> runs) {
  std::map<std::pair<int, int64_t>, std::vector<RunMeasure>> same;
  for (const RunMeasure& run : runs) {
    same[{run.workers, run.global_batch}].push_back(run);
  }
  std::vector<ScalingSize> sizes;
  sizes.reserve(same.size());
  for (const auto& [key, of_size] : same) {
    sizes.push_back(size_of(of_size));
  }
  return sizes;
}

std::vector<ScalingCurve> curves_of(std::span<const ScalingSize> sizes) {
  std::vector<ScalingCurve> curves;
  add_curves(curves, sizes, ScalingKind::Strong, &global);
  add_curves(curves, sizes, ScalingKind::Weak, &per_worker);
  ScalingCurve others;
  std::ranges::copy_if(sizes, std::back_inserter(others.measured), [&](const ScalingSize& size) {
    return !is_in(curves, size);
  });
  if (!others.measured.empty()) {
    curves.push_back(std::move(others));
  }
  std::ranges::for_each(curves, compare);
  return curves;
}

}  // namespace lockstep::report
