// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>

#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/jobs/scaling_runs.h"
#include "launcher/cli/subcommands.h"
#include "launcher/report/scaling_plot.h"
#include "launcher/report/scaling_text.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Compare runs of different sizes and predict larger ones\n"
    "\n"
    "Usage:\n"
    "  lockstep scaling [OPTIONS] RUN...\n"
    "  lockstep scaling [OPTIONS] -c FILE\n"
    "\n"
    "Shows for each strategy how throughput grows with the number of workers:\n"
    "speed-up and scaling efficiency relative to the smallest run, exposed\n"
    "communication, and GPU energy per sample. Runs with the same global batch are\n"
    "strong scaling, runs with the same batch per worker are weak scaling. From three\n"
    "sizes on, a model of the step time predicts larger sizes and shows up to which\n"
    "size it is reliable. With -c, the runs are those of the jobs that lockstep\n"
    "submit creates from FILE with mode: scaling-test.";

constexpr const char* kFooter =
    "Columns:\n"
    "  batch      global batch: samples per step\n"
    "  runs       number of runs; model: prediction; guess: beyond the reliable range\n"
    "  samples/s  median throughput after the warm-up; for several runs, the median\n"
    "             of their medians\n"
    "  +-         variation; for a prediction, its uncertainty\n"
    "  effic.     scaling efficiency: speed-up divided by the increase in workers\n"
    "  exposed    fraction of a step in which a worker waits for the others\n"
    "  J/sample   energy of all GPUs of the run per sample\n"
    "\n"
    "Examples:\n"
    "  lockstep scaling runs\n"
    "  lockstep scaling --plot scaling.html runs/ddp-1x4-4711 runs/ddp-2x4-4712\n"
    "  lockstep scaling -c slurm_config.yaml --predict 64,32n\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  64   unknown run, or not enough data for a measurement or a prediction\n"
    "  69   Slurm is not installed or does not respond\n"
    "  74   a file could not be read or written\n"
    "\n"
    "Files:\n"
    "  RUN/events/    events of workers and agents, see docs/events.md\n";

struct ScalingOptions {
  std::vector<std::string> runs;
  std::optional<std::string> file;
  std::string predict;
  std::string plot;
  bool is_json = false;
  bool is_csv = false;
};

report::PredictedSize predicted_size(std::string word) {
  const bool is_nodes = word.ends_with('n');
  if (is_nodes) {
    word.pop_back();
  }
  constexpr int64_t kMaximum = 1'000'000;
  const auto count = find_integer(word);
  if (!count || *count < 1 || *count > kMaximum) {
    throw Error(ExitCode::Usage, fmt::format("cannot understand --predict '{}'", word))
        .fact("expected", "numbers of workers, or of nodes followed by n, separated by commas")
        .hint("--predict 16,32,8n");
  }
  return {.count = static_cast<int>(*count), .is_nodes = is_nodes};
}

std::vector<report::PredictedSize> predicted_sizes(const std::string& text) {
  std::vector<report::PredictedSize> sizes;
  for (const std::string& word : split(text, ',')) {
    sizes.push_back(predicted_size(std::string(trim(word))));
  }
  return sizes;
}

void check_options(const ScalingOptions& options) {
  if (options.runs.empty() && !options.file) {
    throw Error(ExitCode::Usage, "no runs given")
        .hint("lockstep scaling runs, which compares all runs below ./runs");
  }
  if (options.is_json && options.is_csv) {
    throw Error(ExitCode::Usage, "--json and --csv contradict each other")
        .hint("use one of the two");
  }
  const std::string kind = std::filesystem::path(options.plot).extension().string();
  if (!options.plot.empty() && kind != ".svg" && kind != ".html") {
    throw Error(ExitCode::Usage, fmt::format("cannot plot to '{}'", options.plot))
        .fact("expected", "a file name that ends in .svg or .html", "--plot")
        .hint("--plot scaling.html");
  }
}

std::vector<ComparedRun> named_runs(const ScalingOptions& options) {
  std::vector<ComparedRun> runs;
  for (const std::string& word : options.runs) {
    const std::vector<ComparedRun> found = compared_runs(word);
    runs.insert(runs.end(), found.begin(), found.end());
  }
  if (options.file) {
    const ScalingTest test = find_scaling_test(*options.file, std::filesystem::current_path());
    runs.insert(runs.end(), test.runs.begin(), test.runs.end());
    if (!test.missing.empty()) {
      fmt::print(stderr, "lockstep: no run yet for {}\n", join(test.missing, ", "));
    }
  }
  return runs;
}

std::vector<report::RunMeasure> measure(const std::vector<ComparedRun>& runs) {
  std::vector<report::RunMeasure> measures;
  measures.reserve(runs.size());
  for (const ComparedRun& run : runs) {
    measures.push_back(report::measure_run(run.directory));
    if (measures.back().strategy.empty()) {
      measures.back().strategy = run.strategy;
    }
  }
  return measures;
}

void require_something(const report::Scaling& scaling) {
  if (!scaling.strategies.empty()) {
    return;
  }
  Error error(ExitCode::Usage, "none of these runs can be measured");
  for (const report::RunMeasure& run : scaling.runs) {
    error.fact(run.name, run.objection);
  }
  throw std::move(error.hint("use runs of at least ten seconds whose program reports steps"));
}

// The table is printed before this check: the measurements are valid even if the prediction is not.
// The exit code still reports that --predict could not be done.
void require_prediction(const report::Scaling& scaling) {
  for (const report::StrategyScaling& strategy : scaling.strategies) {
    if (strategy.model) {
      return;
    }
  }
  Error error(ExitCode::Usage, "cannot predict other sizes from these runs");
  for (const report::StrategyScaling& strategy : scaling.strategies) {
    error.fact(strategy.strategy, strategy.no_model);
  }
  throw std::move(error.hint("run the missing sizes, or drop --predict"));
}

std::string printed(const report::Scaling& scaling, const ScalingOptions& options) {
  if (options.is_json) {
    return report::scaling_json(scaling);
  }
  return options.is_csv ? report::scaling_csv(scaling) : report::scaling_table(scaling);
}

int compare(const ScalingOptions& options) {
  check_options(options);
  const std::vector<report::PredictedSize> sizes = predicted_sizes(options.predict);
  const report::Scaling scaling = report::compare_runs(measure(named_runs(options)), sizes);
  require_something(scaling);
  os::write_output(printed(scaling, options));
  if (!options.plot.empty()) {
    os::atomic_write(options.plot,
                     options.plot.ends_with(".svg") ? report::scaling_svg(scaling)
                                                    : report::scaling_page(scaling));
  }
  if (!sizes.empty()) {
    require_prediction(scaling);
  }
  return 0;
}

}  // namespace

void add_scaling(CLI::App& app, Call& call) {
  auto options = std::make_shared<ScalingOptions>();
  CLI::App* command = app.add_subcommand("scaling", kDescription);
  command->footer(kFooter);
  command->add_option("RUN", options->runs, "Runs, jobs or directories that contain runs");
  command->add_option("-c,--config", options->file, "Job file of a scaling test")
      ->type_name("FILE");
  command
      ->add_option("--predict",
                   options->predict,
                   "Numbers of workers to predict, or of nodes followed by n: 16,32,8n")
      ->type_name("COUNTS")
      ->default_str("2, 4 and 8 times the largest run");
  command
      ->add_option("--plot", options->plot, "Write a chart to FILE.svg or all charts to FILE.html")
      ->type_name("FILE");
  command->add_flag("--json", options->is_json, "Print JSON");
  command->add_flag("--csv", options->is_csv, "Print CSV");
  command->callback([options, &call] { call.exit_code = compare(*options); });
}

}  // namespace lockstep::cli
