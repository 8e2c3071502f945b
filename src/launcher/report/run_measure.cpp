// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_measure.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "common/base/median.h"
#include "common/contract/run_state.h"
#include "common/contract/strategy_kind.h"
#include "launcher/monitor/event_store.h"
#include "launcher/report/run_energy.h"
#include "launcher/report/step_rates.h"

// Measures one run for a comparison (lockstep scaling). All numbers are from one time span:
//
//   start of the last attempt | warm-up: 10 % of the reports, at least 2 | steady ... | last report
//
// Medians are used, because evaluations, checkpoints and noise of other jobs lengthen single
// intervals; the mean would compare how often runs evaluate.
namespace lockstep::report {
namespace {

using monitor::EventStore;
using monitor::Point;

constexpr double kEver = std::numeric_limits<double>::infinity();
constexpr size_t kAll = std::numeric_limits<size_t>::max();
// With fewer intervals, a median is not meaningful.
constexpr size_t kMinIntervals = 3;

// Without a start event (a program without the library) all reports are used.
double last_start(const EventStore& store) {
  double time = -kEver;
  for (const monitor::Mark& mark : store.marks()) {
    if (mark.kind == monitor::Mark::Kind::Start || mark.kind == monitor::Mark::Kind::Restart) {
      time = mark.time;
    }
  }
  return time;
}

// The step reports after the warm-up, from the events of rank 0 or from its output.
std::vector<Point> steady_steps(const EventStore& store) {
  const double start = last_start(store);
  std::vector<Point> steps = store.series("step", start, kEver, kAll);
  if (steps.empty()) {
    steps = store.series("output/step", start, kEver, kAll);
    for (Point& point : steps) {
      point.step = static_cast<int64_t>(point.high);
    }
  }
  constexpr size_t kTenth = 10;
  const size_t early = std::min(steps.size(), std::max<size_t>(2, steps.size() / kTenth));
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(early));
  return steps;
}

// The strategy on the command line (-s ddp), for programs that do not report it.
std::string strategy_in(const std::vector<std::string>& command) {
  const std::vector<std::string> names = contract::strategy_names();
  for (size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    std::string value = word.starts_with("--strategy=") ? word.substr(word.find('=') + 1)
                        : (word == "-s" || word == "--strategy") && i + 1 < command.size()
                            ? command[i + 1]
                            : "";
    if (std::ranges::find(names, value) != names.end()) {
      return value;
    }
  }
  return "";
}

// The program in a command such as `python3 -u train.py --epochs 3`: train.py.
std::string program_in(const std::vector<std::string>& command) {
  for (const std::string& word : command) {
    std::string name = std::filesystem::path(word).filename().string();
    if (!name.starts_with("python") && !name.starts_with("-")) {
      return name;
    }
  }
  return "";
}

int nodes_of(const contract::RunDirectory& run, const monitor::Snapshot& now) {
  if (!now.nodes.empty()) {
    return static_cast<int>(now.nodes.size());
  }
  const auto state = contract::find_state(run);
  return state ? static_cast<int>(state->nodes.size()) : 0;
}

// Replicas in one process count as workers: each reports its own events.
int workers_of(const monitor::Snapshot& now, double start) {
  constexpr double kClockSeconds = 1;
  const auto reporting = std::ranges::count_if(now.ranks, [&](const monitor::RankView& rank) {
    return rank.step >= 0 && rank.time >= start - kClockSeconds;
  });
  return std::max(now.world_size, static_cast<int>(reporting));
}

// Seconds per step: the median over time of each rank, then the mean over the ranks. The series are
// those of all attempts; the span restricts them to the last one.
std::optional<double> exchange_of(const EventStore& store, const TimeSpan& span) {
  std::vector<double> of_ranks;
  for (const std::string& name : store.series_names()) {
    if (!name.starts_with("rank/") || !name.ends_with("/exchange_seconds")) {
      continue;
    }
    std::vector<double> seconds;
    for (const Point& point : store.series(name, span.from, span.to, kAll)) {
      seconds.push_back(point.mean);
    }
    if (!seconds.empty()) {
      of_ranks.push_back(median(seconds));
    }
  }
  if (of_ranks.empty()) {
    return std::nullopt;
  }
  double sum = 0;
  for (const double seconds : of_ranks) {
    sum += seconds;
  }
  return sum / static_cast<double>(of_ranks.size());
}

// Samples per second, from the global batch or from the output of the program. The global batch
// times the step rate is exact. The rate that a program prints is its own average, usually over the
// time since the start.
void measure_samples(const EventStore& store,
                     const std::vector<double>& rates,
                     const TimeSpan& span,
                     RunMeasure& measure) {
  std::vector<double> samples;
  if (measure.global_batch > 0) {
    samples = rates;
    for (double& rate : samples) {
      rate *= static_cast<double>(measure.global_batch);
    }
  } else {
    for (const Point& point : store.series("output/samples_per_second", span.from, span.to, kAll)) {
      samples.push_back(point.mean);
    }
  }
  measure.samples_per_second = median(samples);
  measure.spread = relative_spread(samples);
  if (measure.samples_per_second <= 0) {
    measure.objection = "reports neither its global batch nor samples per second";
  }
}

}  // namespace

// Reads the whole run at once with large capacities, so that points are merged only in runs of more
// than 262,144 reports. A run that cannot be used is returned with its objection, not skipped, so
// that the caller can list it.
RunMeasure measure_run(const contract::RunDirectory& run) {
  constexpr size_t kPoints = size_t{1} << 18;
  constexpr size_t kPointsOfMany = size_t{1} << 14;
  EventStore store(run, {.points = kPoints, .points_of_many = kPointsOfMany});
  store.poll();
  const monitor::Snapshot now = store.snapshot();
  RunMeasure measure{
      .name = run.name(),
      .program = program_in(now.command),
      .strategy = now.strategy.empty() ? strategy_in(now.command) : now.strategy,
      .nodes = nodes_of(run, now),
      .workers = workers_of(now, last_start(store)),
      .gpus = static_cast<int>(used_gpus(now).size()),
      .global_batch = now.global_batch,
      .gradient_bytes = now.gradient_bytes,
  };
  const std::vector<Point> steps = steady_steps(store);
  const std::vector<double> rates = step_rates(steps);
  if (rates.size() < kMinIntervals || measure.workers == 0) {
    measure.objection =
        fmt::format("too short: {} step reports after the warm-up, at least {} are needed",
                    steps.size(),
                    kMinIntervals + 1);
    return measure;
  }
  const TimeSpan span{.from = steps.front().time, .to = steps.back().time};
  measure.step_seconds = 1 / median(rates);
  measure_samples(store, rates, span, measure);
  if (const auto seconds = exchange_of(store, span)) {
    measure.exchange_share = *seconds / measure.step_seconds;
  }
  const double samples = static_cast<double>(steps.back().step - steps.front().step) *
                         static_cast<double>(measure.global_batch);
  const auto joules = find_energy(store, now, span);
  if (joules && samples > 0) {
    measure.joules_per_sample = *joules / samples;
  }
  return measure;
}

}  // namespace lockstep::report
