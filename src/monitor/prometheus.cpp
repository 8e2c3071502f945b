// SPDX-License-Identifier: Apache-2.0
#include "monitor/prometheus.h"

#include <algorithm>

#include "monitor/metric_page.h"
#include "monitor/prometheus_gpus.h"

namespace lockstep::monitor {
namespace {

using Labels = MetricPage::Labels;

Labels run_labels(const Snapshot& snapshot) {
  return {{"run", snapshot.run_id}, {"job_id", snapshot.job}, {"strategy", snapshot.strategy}};
}

Labels with(Labels labels, std::string_view label, std::string content) {
  labels.emplace_back(label, std::move(content));
  return labels;
}

double age(double time, double now) {
  return std::max(0.0, now - time);
}

std::optional<double> known(int64_t number, int64_t least) {
  return number >= least ? std::optional(static_cast<double>(number)) : std::nullopt;
}

// NOLINTNEXTLINE(readability-function-size): a list of metrics, one after the other
void add_run(MetricPage& page, const Snapshot& snapshot, double now) {
  const Labels labels = run_labels(snapshot);
  const auto add = [&](std::string_view name, std::string_view help, const auto& value) {
    page.begin(name, name.ends_with("_total") ? "counter" : "gauge", help);
    page.add(labels, value);
  };
  page.begin("lockstep_run_info", "gauge", "What runs; always 1.");
  page.add(with(with(labels, "phase", snapshot.phase), "transport", snapshot.transport), 1.0);
  add("lockstep_workers", "Workers of the gang.", known(snapshot.world_size, 1));
  add("lockstep_nodes",
      "Nodes that tell of themselves.",
      static_cast<double>(snapshot.nodes.size()));
  add("lockstep_step_total", "Steps that all ranks have done.", known(snapshot.step, 0));
  add("lockstep_steps_planned", "Steps that the run shall make.", known(snapshot.steps, 1));
  add("lockstep_samples_total",
      "Samples that the gang has learnt from.",
      known(snapshot.step, 0) && snapshot.global_batch > 0
          ? known(snapshot.step * snapshot.global_batch, 0)
          : std::nullopt);
  add("lockstep_epoch", "The epoch that the gang is in.", snapshot.epoch);
  add("lockstep_loss", "Mean loss of the gang.", snapshot.loss);
  add("lockstep_learning_rate", "The learning rate.", snapshot.learning_rate);
  add("lockstep_grad_norm", "The norm of the gradient.", snapshot.gradient_norm);
  add("lockstep_samples_per_second",
      "Samples per second of the gang.",
      snapshot.samples_per_second);
  add("lockstep_step_seconds", "How long a step takes now.", snapshot.step_seconds);
  add("lockstep_remaining_seconds", "What the steps left will take.", snapshot.seconds_left);
  add("lockstep_first_step_seconds",
      "From the command to the first step.",
      snapshot.first_step_seconds);
  add("lockstep_evaluations_total",
      "Evaluations so far.",
      static_cast<double>(snapshot.evaluations));
  add("lockstep_evaluation_loss", "Loss of the last evaluation.", snapshot.evaluation_loss);
  add("lockstep_evaluation_accuracy_ratio", "Its accuracy, 0 to 1.", snapshot.accuracy);
  add("lockstep_evaluation_top5_ratio", "Its top-5 accuracy, 0 to 1.", snapshot.top5);
  add("lockstep_checkpoints_total",
      "Checkpoints so far.",
      static_cast<double>(snapshot.checkpoints));
  add("lockstep_checkpoint_stall_seconds_total",
      "For which training stood still for them.",
      snapshot.checkpoint_seconds);
  add("lockstep_checkpoint_age_seconds",
      "Since the newest one was complete.",
      snapshot.checkpoint_time > 0 ? std::optional(age(snapshot.checkpoint_time, now))
                                   : std::nullopt);
  add("lockstep_restarts_total", "Starts of the gang after the first.", snapshot.restarts * 1.0);
  add("lockstep_heartbeat_age_seconds",
      "Since the last sign of life.",
      snapshot.updated > 0 ? std::optional(age(snapshot.updated, now)) : std::nullopt);
  add("lockstep_stragglers",
      "Ranks that hold the gang up.",
      static_cast<double>(std::count_if(snapshot.ranks.begin(),
                                        snapshot.ranks.end(),
                                        [](const RankView& rank) { return rank.is_straggler; })));
  add("lockstep_bad_lines_total",
      "Lines of the run's files that could not be read.",
      static_cast<double>(snapshot.bad_lines));
  page.begin("lockstep_output_metric", "gauge", "What rank 0's output says of it.");
  for (const auto& [name, value] : snapshot.output_metrics) {
    page.add(with(labels, "name", name), value);
  }
}

void add_nodes(MetricPage& page, const Snapshot& snapshot) {
  const auto add = [&](std::string_view name, std::string_view help, auto value) {
    page.begin(name, "gauge", help);
    for (const NodeView& node : snapshot.nodes) {
      page.add(with(run_labels(snapshot), "node", node.sample.host), value(node));
    }
  };
  const auto add_traffic = [&](std::string_view name, std::string_view help, auto value) {
    page.begin(name, "counter", help);
    for (const NodeView& node : snapshot.nodes) {
      for (const contract::InterfaceSample& interface : node.sample.interfaces) {
        page.add(
            with(with(run_labels(snapshot), "node", node.sample.host), "interface", interface.name),
            static_cast<double>(value(interface)));
      }
    }
  };
  add("lockstep_node_cpu_cores", "Busy cores of those granted.", [](const NodeView& node) {
    return node.sample.cores;
  });
  add("lockstep_node_cpu_granted_cores", "Cores that the run may use.", [](const NodeView& node) {
    return known(node.sample.granted, 1);
  });
  add("lockstep_node_memory_bytes", "Memory of all workers.", [](const NodeView& node) {
    return static_cast<double>(node.sample.memory_bytes);
  });
  add("lockstep_node_memory_limit_bytes", "What they may use.", [](const NodeView& node) {
    return known(node.sample.memory_limit_bytes, 1);
  });
  add_traffic("lockstep_node_network_receive_bytes_total",
              "Received since the node was started.",
              [](const contract::InterfaceSample& interface) { return interface.received_bytes; });
  add_traffic("lockstep_node_network_transmit_bytes_total",
              "Sent since the node was started.",
              [](const contract::InterfaceSample& interface) { return interface.sent_bytes; });
}

// By rank, for every rank: what is not known of it is left out.
void add_ranks(MetricPage& page, const Snapshot& snapshot, double now) {
  const auto labels_of = [&](const RankView& rank) {
    const std::string host =
        rank.node < 0 ? "" : snapshot.nodes[static_cast<size_t>(rank.node)].sample.host;
    return with(with(run_labels(snapshot), "node", host), "rank", std::to_string(rank.rank));
  };
  const auto add = [&](std::string_view name, std::string_view help, auto value) {
    page.begin(name, "gauge", help);
    for (const RankView& rank : snapshot.ranks) {
      page.add(labels_of(rank), value(rank));
    }
  };
  add("lockstep_rank_step", "The last step it told of.", [](const RankView& rank) {
    return known(rank.step, 0);
  });
  add("lockstep_rank_steps_behind", "Behind the foremost rank.", [](const RankView& rank) {
    return rank.step < 0 ? std::nullopt : std::optional(rank.steps_behind);
  });
  add("lockstep_rank_straggler", "1: it holds the gang up.", [](const RankView& rank) {
    return rank.is_straggler ? 1.0 : 0.0;
  });
  add("lockstep_rank_own_step_seconds",
      "A step without waiting for others.",
      [](const RankView& rank) { return rank.own_seconds; });
  page.begin("lockstep_rank_phase_seconds", "gauge", "Where the time of a step goes.");
  for (const RankView& rank : snapshot.ranks) {
    const Labels labels = labels_of(rank);
    page.add(with(labels, "phase", "data"), rank.split.data);
    page.add(with(labels, "phase", "compute"), rank.split.compute);
    page.add(with(labels, "phase", "exchange"), rank.split.exchange);
    page.add(with(labels, "phase", "checkpoint"), rank.split.checkpoint);
  }
  add("lockstep_rank_heartbeat_age_seconds", "Since its last event.", [now](const RankView& rank) {
    return rank.time > 0 ? std::optional(age(rank.time, now)) : std::nullopt;
  });
  add("lockstep_rank_cpu_cores", "Cores that it keeps busy.", [](const RankView& rank) {
    return rank.cores;
  });
  add("lockstep_rank_memory_bytes", "Resident memory.", [](const RankView& rank) {
    return rank.memory_bytes;
  });
  add("lockstep_rank_memory_peak_bytes", "The most so far.", [](const RankView& rank) {
    return rank.peak_memory_bytes;
  });
  add("lockstep_rank_device_memory_bytes", "Of its GPU, by itself.", [](const RankView& rank) {
    return rank.device_memory_bytes;
  });
}

}  // namespace

std::string prometheus_text(const Snapshot& snapshot, double now) {
  MetricPage page;
  add_run(page, snapshot, now);
  add_nodes(page, snapshot);
  add_ranks(page, snapshot, now);
  add_gpus(page, snapshot);
  return page.take();
}

}  // namespace lockstep::monitor
