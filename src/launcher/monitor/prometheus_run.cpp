// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/prometheus_run.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace lockstep::monitor {
namespace {

// A run, and the current time, from which ages are computed.
struct Look {
  const Snapshot& run;
  double now;
};

std::optional<double> known(int64_t number, int64_t minimum) {
  return number >= minimum ? std::optional(static_cast<double>(number)) : std::nullopt;
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

// A name that ends in _total is a counter, every other one a gauge: add_runs() derives the type
// from the name. A function returns nothing if the value is unknown; the metric is then absent for
// that run, which Prometheus can distinguish from 0.
// clang-format off
constexpr auto kMetrics = std::to_array<Metric>({
    {"lockstep_workers", "Number of workers (world size).",
     [](const Look& look) { return known(look.run.world_size, 1); }},
    {"lockstep_nodes", "Number of nodes that report samples.",
     [](const Look& look) { return std::optional(static_cast<double>(look.run.nodes.size())); }},
    {"lockstep_step_total", "Steps completed by all ranks.",
     [](const Look& look) { return known(look.run.step, 0); }},
    {"lockstep_steps_planned", "Total steps of the run.",
     [](const Look& look) { return known(look.run.steps, 1); }},
    {"lockstep_samples_total", "Samples processed by all workers.",
     [](const Look& look) { return samples_of(look.run); }},
    {"lockstep_epoch", "Current epoch.",
     [](const Look& look) { return look.run.epoch; }},
    {"lockstep_loss", "Mean training loss over all workers.",
     [](const Look& look) { return look.run.loss; }},
    {"lockstep_learning_rate", "Learning rate.",
     [](const Look& look) { return look.run.learning_rate; }},
    {"lockstep_grad_norm", "Gradient norm.",
     [](const Look& look) { return look.run.gradient_norm; }},
    {"lockstep_samples_per_second", "Samples per second over all workers.",
     [](const Look& look) { return look.run.samples_per_second; }},
    {"lockstep_step_seconds", "Current time of a step.",
     [](const Look& look) { return look.run.step_seconds; }},
    {"lockstep_remaining_seconds", "Estimated time of the remaining steps.",
     [](const Look& look) { return look.run.seconds_left; }},
    {"lockstep_first_step_seconds", "Time from the command to the first step.",
     [](const Look& look) { return look.run.first_step_seconds; }},
    {"lockstep_evaluations_total", "Number of evaluations.",
     [](const Look& look) { return known(look.run.evaluations, 0); }},
    {"lockstep_evaluation_loss", "Loss of the last evaluation.",
     [](const Look& look) { return look.run.evaluation_loss; }},
    {"lockstep_evaluation_accuracy_ratio", "Accuracy of the last evaluation, 0 to 1.",
     [](const Look& look) { return look.run.accuracy; }},
    {"lockstep_evaluation_top5_ratio", "Top-5 accuracy of the last evaluation, 0 to 1.",
     [](const Look& look) { return look.run.top5; }},
    {"lockstep_checkpoints_total", "Number of checkpoints.",
     [](const Look& look) { return known(look.run.checkpoints, 0); }},
    {"lockstep_checkpoint_stall_seconds_total", "Time that training was blocked by checkpoints.",
     [](const Look& look) { return std::optional(look.run.checkpoint_seconds); }},
    {"lockstep_checkpoint_age_seconds", "Time since the newest checkpoint.",
     [](const Look& look) { return age(look.run.checkpoint_time, look.now); }},
    {"lockstep_restarts_total", "Number of restarts.",
     [](const Look& look) { return known(look.run.restarts, 0); }},
    {"lockstep_heartbeat_age_seconds", "Time since the last update of any file of the run.",
     [](const Look& look) { return age(look.run.updated, look.now); }},
    {"lockstep_stragglers", "Number of stragglers.",
     [](const Look& look) { return stragglers_of(look.run); }},
    {"lockstep_bad_lines_total", "Lines in the files of the run that could not be parsed.",
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
  page.begin("lockstep_run_info", "gauge", "Phase and transport of the run as labels; always 1.");
  for (const Snapshot& run : runs) {
    page.add(with(with(run_labels(run), "phase", run.phase), "transport", run.transport), 1.0);
  }
  for (const Metric& metric : kMetrics) {
    page.begin(metric.name, metric.name.ends_with("_total") ? "counter" : "gauge", metric.help);
    for (const Snapshot& run : runs) {
      page.add(run_labels(run), metric.value({.run = run, .now = now}));
    }
  }
  page.begin("lockstep_output_metric", "gauge", "Value found in the output of rank 0 (--metric).");
  for (const Snapshot& run : runs) {
    for (const auto& [name, value] : run.output_metrics) {
      page.add(with(run_labels(run), "name", name), value);
    }
  }
}

}  // namespace lockstep::monitor
