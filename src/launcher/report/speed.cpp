// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/speed.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/base/median.h"
#include "launcher/monitor/heat.h"
#include "launcher/report/step_rates.h"

// Two speeds: the steady one (a median, without startup, evaluations and checkpoints) shows what
// the hardware can do; the overall one (samples over the duration) shows what the user got. Samples
// count repeated steps too, because they were computed and paid for.
namespace lockstep::report {
namespace {

using monitor::Point;

std::optional<double> find_median(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(median(values));
}

std::vector<double> values_of(const std::vector<Point>& points) {
  std::vector<double> values;
  values.reserve(points.size());
  for (const Point& point : points) {
    if (std::isfinite(point.mean)) {
      values.push_back(point.mean);
    }
  }
  return values;
}

// Sets the share of the run during which the rank was slow, and the time since which it has been
// slow continuously. `since` is the start of the last uninterrupted slow period, and is reset by
// each column that is not slow. times[] has the end of each column, so its width is subtracted.
void describe_slowness(SlowRank& slow,
                       const std::vector<std::optional<int>>& percents,
                       const std::vector<double>& times) {
  constexpr int kSlow = 110;
  int known = 0;
  int high = 0;
  bool is_slow = false;
  for (size_t i = 0; i < percents.size(); ++i) {
    if (!percents[i]) {
      continue;
    }
    ++known;
    const bool was_slow = is_slow;
    is_slow = *percents[i] >= kSlow;
    high += is_slow ? 1 : 0;
    if (is_slow && !was_slow) {
      const double width = times.size() > 1 ? times[1] - times[0] : 0;
      slow.since = times[i] - width;
    } else if (!is_slow) {
      slow.since.reset();
    }
  }
  slow.share = known > 0 ? static_cast<double>(high) / known : 0;
}

}  // namespace

std::vector<Point> whole_series(const monitor::EventStore& store, const std::string& name) {
  constexpr double kEver = std::numeric_limits<double>::infinity();
  return store.series(name, -kEver, kEver, monitor::Series::kUsualCapacity);
}

// The step rate of rank 0 stands for the run, because all workers make the same steps. Without a
// global batch, only the throughput that the program prints is known.
Speed measure_speed(const monitor::EventStore& store,
                    const monitor::Snapshot& snapshot,
                    double seconds) {
  Speed speed{.first_step_seconds = snapshot.first_step_seconds};
  std::vector<Point> steps = whole_series(store, "step");
  if (steps.empty()) {
    steps = whole_series(store, "output/step");
    speed.is_from_output = !steps.empty();
  }
  speed.steps_per_second = find_median(step_rates(steps));
  const auto batch = static_cast<double>(snapshot.global_batch);
  const auto leader = std::find_if(
      snapshot.ranks.begin(), snapshot.ranks.end(), [](const auto& one) { return one.rank == 0; });
  if (batch > 0 && speed.steps_per_second) {
    speed.samples_per_second = batch * *speed.steps_per_second;
  } else if (const auto reported = whole_series(store, "output/samples_per_second");
             !reported.empty()) {
    speed.samples_per_second = find_median(values_of(reported));
    speed.is_from_output = true;
  }
  if (batch > 0 && leader != snapshot.ranks.end() && leader->totals.steps > 0) {
    speed.samples = snapshot.global_batch * leader->totals.steps;
    if (seconds > 0) {
      speed.mean_per_second = static_cast<double>(*speed.samples) / seconds;
    }
  }
  return speed;
}

// Counted and estimated energy are added: they cover disjoint times (monitor::GpuTotals). The
// source says which of them contributed.
Energy measure_energy(const monitor::Snapshot& snapshot, const Speed& speed) {
  double counted = 0;
  double estimated = 0;
  double counted_seconds = 0;
  double estimated_seconds = 0;
  bool has_slices = false;
  for (const monitor::NodeView& node : snapshot.nodes) {
    for (const monitor::HostTotals& host : node.hosts) {
      for (const monitor::GpuTotals& gpu : host.gpus) {
        counted += gpu.counted_joules;
        estimated += gpu.estimated_joules;
        counted_seconds += gpu.counted_seconds;
        estimated_seconds += gpu.estimated_seconds;
        has_slices = has_slices || gpu.last.slice_of.has_value();
      }
    }
  }
  Energy energy{.joules = counted + estimated};
  if (has_slices && counted_seconds + estimated_seconds > 0) {
    energy.source = Energy::Source::Slices;
  } else if (counted_seconds > 0) {
    energy.source = estimated_seconds > 0 ? Energy::Source::Both : Energy::Source::Counter;
  } else if (estimated_seconds > 0) {
    energy.source = Energy::Source::Power;
  }
  if (energy.source != Energy::Source::None && speed.samples.value_or(0) > 0) {
    energy.joules_per_sample = energy.joules / static_cast<double>(*speed.samples);
  }
  return energy;
}

// heat.ranks has the order of snapshot.ranks, so a row of the heat map is also an index into the
// snapshot.
std::vector<SlowRank> find_slow_ranks(const monitor::EventStore& store,
                                      const monitor::Snapshot& snapshot) {
  constexpr size_t kColumns = 60;
  std::vector<int> ranks;
  ranks.reserve(snapshot.ranks.size());
  for (const monitor::RankView& rank : snapshot.ranks) {
    ranks.push_back(rank.rank);
  }
  const monitor::Heat heat = monitor::make_heat(store, ranks, kColumns);
  std::vector<SlowRank> found;
  found.reserve(heat.slowest.size());
  for (const monitor::Heat::Slow& one : heat.slowest) {
    const auto row = static_cast<size_t>(std::find(heat.ranks.begin(), heat.ranks.end(), one.rank) -
                                         heat.ranks.begin());
    SlowRank slow{.rank = one.rank, .percent = one.percent};
    describe_slowness(slow, heat.percents[row], heat.times);
    const int node = snapshot.ranks[row].node;
    if (node >= 0) {
      slow.host = snapshot.nodes[static_cast<size_t>(node)].sample.host;
    }
    found.push_back(std::move(slow));
  }
  return found;
}

}  // namespace lockstep::report
