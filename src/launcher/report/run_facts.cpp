// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/run_facts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/contract/requeue_record.h"
#include "common/contract/run_state.h"
#include "launcher/report/ending.h"
#include "launcher/report/speed.h"
#include "lockstep/error.h"

// Everything that a report states is computed here, once, from the snapshot, the series and the
// files of the run. The renderers (text, HTML, JSON) and the rules of advise() only read RunFacts.
// A source that is missing leaves its facts absent and a sentence in `missing`.
namespace lockstep::report {
namespace {

using monitor::GpuTotals;
using monitor::HostTotals;

constexpr std::array kParts = {&Split::data,
                               &Split::compute,
                               &Split::exchange,
                               &Split::update,
                               &Split::checkpoint,
                               &Split::other};

void keep_worst(std::optional<Worst>& worst, int rank, const std::optional<double>& share) {
  if (share && (!worst || *share > worst->share)) {
    worst = Worst{.rank = rank, .share = *share};
  }
}

// Each rank has the same weight, independent of its number of steps. A part that a rank does not
// report counts as 0 in the mean if another rank reports it.
SplitFacts split_facts(const monitor::Snapshot& snapshot) {
  SplitFacts facts;
  for (const monitor::RankView& rank : snapshot.ranks) {
    const auto split = split_of(rank.totals);
    if (!split) {
      continue;
    }
    ++facts.ranks;
    if (rank.rank == 0) {
      facts.leader = *split;
    }
    for (const auto part : kParts) {
      if ((*split).*part) {
        facts.mean.*part = (facts.mean.*part).value_or(0) + *((*split).*part);
      }
    }
    keep_worst(facts.data, rank.rank, split->data);
    keep_worst(facts.exchange, rank.rank, split->exchange);
  }
  for (const auto part : kParts) {
    if (facts.mean.*part) {
      *(facts.mean.*part) /= facts.ranks;
    }
  }
  return facts;
}

// Calls `look` for each host that was a node of the run. A node has several hosts after a requeue
// to another allocation. Sums and means cover all of them, weighted by the time of each.
template <typename Look>
void each_host(const RunFacts& facts, Look look) {
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const HostTotals& host : node.hosts) {
      look(host);
    }
  }
}

template <typename Look>
void each_gpu(const RunFacts& facts, Look look) {
  each_host(facts, [&look](const HostTotals& host) {
    for (const GpuTotals& gpu : host.gpus) {
      look(gpu);
    }
  });
}

// state.json has the nodes of the last attempt. A run without lockstep has no state; its nodes are
// those with samples.
void read_nodes_and_times(RunFacts& facts, const contract::RunDirectory& run, double now) {
  std::optional<contract::RunState> state;
  try {
    state = contract::find_state(run);
  } catch (const Error&) {
    facts.missing.emplace_back("state.json cannot be read: outcome and end time are unknown");
  }
  if (state) {
    facts.hosts.reserve(state->nodes.size());
    for (const contract::RunNode& node : state->nodes) {
      facts.hosts.push_back(fmt::format("{}: {}", node.name, plural(node.workers, "worker")));
    }
    facts.nodes = static_cast<int>(state->nodes.size());
    facts.begin = state->started;
    facts.end = state->ended.value_or(std::max(state->updated, facts.run.updated));
    if (facts.ending.kind == Ending::Kind::Running) {
      facts.end = std::max(facts.end, now);
    }
  }
  if (facts.nodes == 0) {
    each_host(facts, [&facts](const HostTotals& host) { facts.hosts.push_back(host.host); });
    facts.nodes = static_cast<int>(facts.run.nodes.size());
  }
}

// The extremum of a merged point is exact; its step is the last step of the merged points.
void add_bests(RunFacts& facts, const monitor::EventStore& store) {
  for (const monitor::Point& point : whole_series(store, "evaluation/accuracy")) {
    if (std::isfinite(point.high) &&
        (!facts.best_accuracy || point.high > facts.best_accuracy->value)) {
      facts.best_accuracy = Best{.value = point.high, .step = point.step};
    }
  }
  for (const monitor::Point& point : whole_series(store, "evaluation/loss")) {
    if (std::isfinite(point.low) && (!facts.best_loss || point.low < facts.best_loss->value)) {
      facts.best_loss = Best{.value = point.low, .step = point.step};
    }
  }
}

// Each sentence names the reason and, where there is one, the option that changes it: a report with
// gaps should say how to close them in the next run.
void add_missing_sources(RunFacts& facts) {
  std::vector<std::string>& missing = facts.missing;
  if (facts.run.events == 0) {
    missing.emplace_back(
        "no events: no worker and no agent has reported (RUN/events is empty or missing)");
  } else if (facts.run.nodes.empty()) {
    missing.emplace_back(
        "no samples of CPU, memory, network and GPUs: --sample-every was 0, or each worker had its "
        "own launcher");
  }
  if (!facts.is_trainer && facts.run.events > 0) {
    missing.emplace_back(
        facts.run.output_metrics.empty()
            ? "no loss, steps and speed: the program reports no events; --metric NAME=REGEX "
              "extracts numbers from its output"
            : "no time breakdown: the program reports no events; loss and steps are from its "
              "output");
  }
}

void add_missing(RunFacts& facts) {
  std::vector<std::string>& missing = facts.missing;
  add_missing_sources(facts);
  if (!facts.run.nodes.empty() && count_gpus(facts) == 0) {
    std::string why;
    each_host(facts, [&why](const HostTotals& host) { why = why.empty() ? host.no_gpus : why; });
    missing.push_back("no GPUs" + (why.empty() ? "" : ": " + why));
  }
  if (!facts.job.why_not.empty()) {
    missing.push_back(
        fmt::format("no state of job {} from Slurm: {}", facts.run.job, facts.job.why_not));
  }
  if (facts.run.bad_lines > 0) {
    missing.push_back(
        fmt::format("{} could not be parsed", plural(facts.run.bad_lines, "event line")));
  }
}

}  // namespace

// Shares are relative to the time that the events cover, or to the sum of the parts if that is
// larger.
//
//   totals.seconds   |------------------------------------------------|
//   parts            | data | compute | exchange | update | saved | other |
//
// Checkpoints are reported twice: as checkpoint_seconds in step events, and as the stall of each
// checkpoint event. A checkpoint at the end of the run has no step event after it, so the larger
// sum is used.
std::optional<Split> split_of(const monitor::RankTotals& totals) {
  const auto zero = [](const std::optional<double>& part) {
    return part.value_or(0);
  };
  const std::optional<double> saved =
      totals.checkpoint || totals.stall
          ? std::optional(std::max(zero(totals.checkpoint), zero(totals.stall)))
          : std::nullopt;
  const double reported = zero(totals.data) + zero(totals.compute) + zero(totals.exchange) +
                          zero(totals.update) + zero(saved);
  const double all = std::max(totals.seconds, reported);
  if (all <= 0 || reported <= 0) {
    return std::nullopt;
  }
  const auto share = [all](const std::optional<double>& part) {
    return part ? std::optional(*part / all) : std::nullopt;
  };
  return Split{.data = share(totals.data),
               .compute = share(totals.compute),
               .exchange = share(totals.exchange),
               .update = share(totals.update),
               .checkpoint = share(saved),
               .other = (all - reported) / all};
}

// The order matters: read_nodes_and_times() needs the ending to decide whether the run ends now,
// and the speed needs the duration that read_nodes_and_times() has set.
RunFacts gather_facts(const contract::RunDirectory& run,
                      const monitor::EventStore& store,
                      const JobFacts& job,
                      double now) {
  RunFacts facts;
  facts.name = run.root().filename().string();
  facts.run = store.snapshot();
  facts.job = job;
  facts.is_trainer = !facts.run.strategy.empty();
  for (const monitor::RankView& rank : facts.run.ranks) {
    facts.is_trainer = facts.is_trainer || rank.totals.steps > 0;
  }
  facts.ending = find_ending(run, facts.run, job, now);
  read_nodes_and_times(facts, run, now);
  if (!facts.run.job.empty()) {
    facts.requeues = contract::find_requeue_record(run, facts.run.job).requeues;
  }
  each_host(facts, [&facts](const HostTotals& host) {
    facts.sampled_seconds = std::max(facts.sampled_seconds, host.seconds);
  });
  facts.split = split_facts(facts.run);
  facts.speed = measure_speed(store, facts.run, facts.seconds());
  facts.energy = measure_energy(facts.run, facts.speed);
  facts.slow = find_slow_ranks(store, facts.run);
  add_bests(facts, store);
  add_missing(facts);
  return facts;
}

std::optional<double> gpu_utilisation(const RunFacts& facts) {
  monitor::TimeMean all;
  each_gpu(facts, [&all](const GpuTotals& gpu) {
    all.sum += gpu.utilisation.sum;
    all.seconds += gpu.utilisation.seconds;
  });
  return all.mean();
}

// The weight of a host is its granted cores times its sampled time.
std::optional<double> cpu_utilisation(const RunFacts& facts) {
  monitor::TimeMean all;
  each_host(facts, [&all](const HostTotals& host) {
    all.sum += host.worker_cores.sum;
    all.seconds += host.granted * host.worker_cores.seconds;
  });
  return all.mean();
}

std::optional<double> memory_use(const RunFacts& facts) {
  std::optional<double> maximum;
  each_host(facts, [&maximum](const HostTotals& host) {
    if (host.memory_limit_bytes > 0) {
      maximum = std::max(maximum.value_or(0),
                         static_cast<double>(host.peak_memory_bytes) /
                             static_cast<double>(host.memory_limit_bytes));
    }
  });
  return maximum;
}

std::optional<double> gpu_memory_use(const RunFacts& facts) {
  std::optional<double> maximum;
  each_gpu(facts, [&maximum](const GpuTotals& gpu) {
    if (gpu.peak_memory_bytes && gpu.last.memory_total_bytes.value_or(0) > 0) {
      maximum = std::max(maximum.value_or(0),
                         static_cast<double>(*gpu.peak_memory_bytes) /
                             static_cast<double>(*gpu.last.memory_total_bytes));
    }
  });
  return maximum;
}

std::string gpu_name(const RunFacts& facts, const std::string& host, const GpuTotals& gpu) {
  return facts.run.nodes.size() < 2 ? fmt::format("GPU {}", gpu.last.index)
                                    : fmt::format("GPU {} of {}", gpu.last.index, host);
}

int count_gpus(const RunFacts& facts) {
  int count = 0;
  each_gpu(facts, [&count](const GpuTotals&) { ++count; });
  return count;
}

}  // namespace lockstep::report
