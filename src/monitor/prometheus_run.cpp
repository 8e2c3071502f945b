// SPDX-License-Identifier: Apache-2.0
#include "monitor/prometheus_run.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace lockstep::monitor {
namespace {

// A run, and the time by which ages are told.
struct Look {
  const Snapshot& run;
  double now;
};

std::optional<double> known(int64_t number, int64_t least) {
  return number >= least ? std::optional(static_cast<double>(number)) : std::nullopt;
}

std::optional<double> age(double time, double now) {
  return time > 0 ? std::optional(std::max(0.0, now - time)) : std::nullopt;
}

std::optional<double> samples_of(const Snapshot& run) {
  return run.step >= 0 && run.global_batch > 0 ? known(run.step * run.global_batch, 0)
                                               : std::nullopt;
}

std::optional<double> stragglers_of(const Snapshot& run) {
  return static_cast<double>(std::count_if(
      run.ranks.begin(), run.ranks.end(), [](const RankView& rank) { return rank.is_straggler; }));
}

struct Metric {
  std::string_view name;
  const char* help;
  std::optional<double> (*value)(const Look& look);
};

// clang-format off
constexpr auto kMetrics = std::to_array<Metric>({
    {"lockstep_workers", "Workers of the gang.",
     [](const Look& look) { return known(look.run.world_size, 1); }},
    {"lockstep_nodes", "Nodes that tell of themselves.",
     [](const Look& look) { return std::optional(static_cast<double>(look.run.nodes.size())); }},
    {"lockstep_step_total", "Steps that all ranks have done.",
     [](const Look& look) { return known(look.run.step, 0); }},
    {"lockstep_steps_planned", "Steps that the run shall make.",
     [](const Look& look) { return known(look.run.steps, 1); }},
    {"lockstep_samples_total", "Samples that the gang has learnt from.",
     [](const Look& look) { return samples_of(look.run); }},
    {"lockstep_epoch", "The epoch that the gang is in.",
     [](const Look& look) { return look.run.epoch; }},
    {"lockstep_loss", "Mean loss of the gang.",
     [](const Look& look) { return look.run.loss; }},
    {"lockstep_learning_rate", "The learning rate.",
     [](const Look& look) { return look.run.learning_rate; }},
    {"lockstep_grad_norm", "The norm of the gradient.",
     [](const Look& look) { return look.run.gradient_norm; }},
    {"lockstep_samples_per_second", "Samples per second of the gang.",
     [](const Look& look) { return look.run.samples_per_second; }},
    {"lockstep_step_seconds", "How long a step takes now.",
     [](const Look& look) { return look.run.step_seconds; }},
    {"lockstep_remaining_seconds", "What the steps left will take.",
     [](const Look& look) { return look.run.seconds_left; }},
    {"lockstep_first_step_seconds", "From the command to the first step.",
     [](const Look& look) { return look.run.first_step_seconds; }},
    {"lockstep_evaluations_total", "Evaluations so far.",
     [](const Look& look) { return known(look.run.evaluations, 0); }},
    {"lockstep_evaluation_loss", "Loss of the last evaluation.",
     [](const Look& look) { return look.run.evaluation_loss; }},
    {"lockstep_evaluation_accuracy_ratio", "Its accuracy, 0 to 1.",
     [](const Look& look) { return look.run.accuracy; }},
    {"lockstep_evaluation_top5_ratio", "Its top-5 accuracy, 0 to 1.",
     [](const Look& look) { return look.run.top5; }},
    {"lockstep_checkpoints_total", "Checkpoints so far.",
     [](const Look& look) { return known(look.run.checkpoints, 0); }},
    {"lockstep_checkpoint_stall_seconds_total", "For which training stood still for them.",
     [](const Look& look) { return std::optional(look.run.checkpoint_seconds); }},
    {"lockstep_checkpoint_age_seconds", "Since the newest one was complete.",
     [](const Look& look) { return age(look.run.checkpoint_time, look.now); }},
    {"lockstep_restarts_total", "Starts of the gang after the first.",
     [](const Look& look) { return known(look.run.restarts, 0); }},
    {"lockstep_heartbeat_age_seconds", "Since the last sign of life.",
     [](const Look& look) { return age(look.run.updated, look.now); }},
    {"lockstep_stragglers", "Ranks that hold the gang up.",
     [](const Look& look) { return stragglers_of(look.run); }},
    {"lockstep_bad_lines_total", "Lines of the run's files that could not be read.",
     [](const Look& look) { return known(look.run.bad_lines, 0); }},
});
// clang-format on

}  // namespace

MetricPage::Labels run_labels(const Snapshot& run) {
  return {{"run", run.run_id}, {"job_id", run.job}, {"strategy", run.strategy}};
}

MetricPage::Labels with(MetricPage::Labels labels, std::string_view label, std::string content) {
  labels.emplace_back(label, std::move(content));
  return labels;
}

void add_runs(MetricPage& page, std::span<const Snapshot> runs, double now) {
  page.begin("lockstep_run_info", "gauge", "What runs; always 1.");
  for (const Snapshot& run : runs) {
    page.add(with(with(run_labels(run), "phase", run.phase), "transport", run.transport), 1.0);
  }
  for (const Metric& metric : kMetrics) {
    page.begin(metric.name, metric.name.ends_with("_total") ? "counter" : "gauge", metric.help);
    for (const Snapshot& run : runs) {
      page.add(run_labels(run), metric.value({.run = run, .now = now}));
    }
  }
  page.begin("lockstep_output_metric", "gauge", "What rank 0's output says of it.");
  for (const Snapshot& run : runs) {
    for (const auto& [name, value] : run.output_metrics) {
      page.add(with(run_labels(run), "name", name), value);
    }
  }
}

}  // namespace lockstep::monitor
