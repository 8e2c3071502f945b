// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/prometheus.h"

#include <algorithm>

#include "launcher/monitor/metric_page.h"
#include "launcher/monitor/prometheus_gpus.h"
#include "launcher/monitor/prometheus_run.h"

// All values are computed from the files when Prometheus scrapes; nothing is counted in this
// process. A restarted dashboard therefore continues every counter where it was. A counter can
// decrease when training returns to a checkpoint; Prometheus treats that as a reset.
namespace lockstep::monitor {
namespace {

using Labels = MetricPage::Labels;

// The clocks of the reader and of the writer differ, so a difference can be negative.
double age(double time, double now) {
  return std::max(0.0, now - time);
}

std::optional<double> known(int64_t number, int64_t minimum) {
  return number >= minimum ? std::optional(static_cast<double>(number)) : std::nullopt;
}

void add_nodes(MetricPage& page, std::span<const Snapshot> runs) {
  const auto add = [&](std::string_view name, std::string_view help, auto value) {
    page.begin(name, "gauge", help);
    for (const Snapshot& run : runs) {
      for (const NodeView& node : run.nodes) {
        page.add(with(run_labels(run), "node", node.sample.host), value(node));
      }
    }
  };
  const auto add_traffic = [&](std::string_view name, std::string_view help, auto value) {
    page.begin(name, "counter", help);
    for (const Snapshot& run : runs) {
      for (const NodeView& node : run.nodes) {
        const Labels labels = with(run_labels(run), "node", node.sample.host);
        for (const contract::InterfaceSample& interface : node.sample.interfaces) {
          page.add(with(labels, "interface", interface.name),
                   static_cast<double>(value(interface)));
        }
      }
    }
  };
  add("lockstep_node_cpu_cores", "Busy cores among those granted.", [](const NodeView& node) {
    return node.sample.cores;
  });
  add("lockstep_node_cpu_granted_cores", "Cores granted to the run.", [](const NodeView& node) {
    return known(node.sample.granted, 1);
  });
  add("lockstep_node_memory_bytes", "Memory used by all workers.", [](const NodeView& node) {
    return static_cast<double>(node.sample.memory_bytes);
  });
  add("lockstep_node_memory_limit_bytes", "Memory limit.", [](const NodeView& node) {
    return known(node.sample.memory_limit_bytes, 1);
  });
  add_traffic("lockstep_node_network_receive_bytes_total",
              "Bytes received since the node was booted.",
              [](const contract::InterfaceSample& interface) { return interface.received_bytes; });
  add_traffic("lockstep_node_network_transmit_bytes_total",
              "Bytes sent since the node was booted.",
              [](const contract::InterfaceSample& interface) { return interface.sent_bytes; });
}

Labels rank_labels(const Snapshot& run, const RankView& rank) {
  const std::string host =
      rank.node < 0 ? "" : run.nodes[static_cast<size_t>(rank.node)].sample.host;
  return with(with(run_labels(run), "node", host), "rank", std::to_string(rank.rank));
}

void add_phases(MetricPage& page, std::span<const Snapshot> runs) {
  page.begin("lockstep_rank_phase_seconds", "gauge", "Time of a step by phase.");
  for (const Snapshot& run : runs) {
    for (const RankView& rank : run.ranks) {
      const Labels labels = rank_labels(run, rank);
      page.add(with(labels, "phase", "data"), rank.split.data);
      page.add(with(labels, "phase", "compute"), rank.split.compute);
      page.add(with(labels, "phase", "exchange"), rank.split.exchange);
      page.add(with(labels, "phase", "checkpoint"), rank.split.checkpoint);
    }
  }
}

// Metrics of every rank; unknown values are omitted.
void add_ranks(MetricPage& page, std::span<const Snapshot> runs, double now) {
  const auto add = [&](std::string_view name, std::string_view help, auto value) {
    page.begin(name, "gauge", help);
    for (const Snapshot& run : runs) {
      for (const RankView& rank : run.ranks) {
        page.add(rank_labels(run, rank), value(rank));
      }
    }
  };
  add("lockstep_rank_step", "Last step that the rank reported.", [](const RankView& rank) {
    return known(rank.step, 0);
  });
  add("lockstep_rank_steps_behind", "Steps behind the foremost rank.", [](const RankView& rank) {
    return rank.step < 0 ? std::nullopt : std::optional(rank.steps_behind);
  });
  add("lockstep_rank_straggler", "1 if the rank is a straggler.", [](const RankView& rank) {
    return rank.is_straggler ? 1.0 : 0.0;
  });
  add("lockstep_rank_own_step_seconds",
      "Step time without waiting for other ranks.",
      [](const RankView& rank) { return rank.own_seconds; });
  add_phases(page, runs);
  add("lockstep_rank_heartbeat_age_seconds",
      "Time since the last event of the rank.",
      [now](const RankView& rank) {
        return rank.time > 0 ? std::optional(age(rank.time, now)) : std::nullopt;
      });
  add("lockstep_rank_cpu_cores", "Busy cores.", [](const RankView& rank) { return rank.cores; });
  add("lockstep_rank_memory_bytes", "Resident memory.", [](const RankView& rank) {
    return rank.memory_bytes;
  });
  add("lockstep_rank_memory_peak_bytes", "Peak resident memory.", [](const RankView& rank) {
    return rank.peak_memory_bytes;
  });
  add("lockstep_rank_device_memory_bytes",
      "GPU memory held by the allocator of the rank.",
      [](const RankView& rank) { return rank.device_memory_bytes; });
}

}  // namespace

std::string prometheus_text(std::span<const Snapshot> runs, double now, Names names) {
  MetricPage page;
  add_runs(page, runs, now);
  add_nodes(page, runs);
  add_ranks(page, runs, now);
  if (names == Names::All) {
    add_gpus(page, runs);
  }
  return page.take();
}

}  // namespace lockstep::monitor
