// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/scaling.h"

#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>

#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/jobs/scaling_network.h"
#include "launcher/cli/jobs/scaling_runs.h"
#include "launcher/cli/subcommands.h"
#include "launcher/report/network_model.h"
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
    "  lockstep scaling --predict --network RATE [OPTIONS] [RUN]\n"
    "\n"
    "Shows for each strategy how throughput grows with the number of workers:\n"
    "speed-up and scaling efficiency relative to the smallest run, exposed\n"
    "communication, and GPU energy per sample. Runs with the same global batch are\n"
    "strong scaling, runs with the same batch per worker are weak scaling. From three\n"
    "sizes on, a model of the step time predicts larger sizes and shows up to which\n"
    "size it is reliable. With -c, the runs are those of the jobs that lockstep\n"
    "submit creates from FILE with mode: scaling-test.\n"
    "\n"
    "With --network, estimates 8, 64 and 512 GPUs from a run with one worker, or from\n"
    "--step-time and --parameters, and lists all assumptions.";

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
    "  communic.  communication per step, hidden or not\n"
    "\n"
    "Examples:\n"
    "  lockstep scaling runs\n"
    "  lockstep scaling --plot scaling.html runs/ddp-1x4-4711 runs/ddp-2x4-4712\n"
    "  lockstep scaling -c slurm_config.yaml --predict 64,32n\n"
    "  lockstep scaling --predict --network 400Gb/s runs/one-gpu\n"
    "  lockstep scaling --predict --network 1Tb/s --step-time 1s --parameters 7B\n"
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
  bool is_predict = false;
  NetworkOptions network;
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
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --predict", word))
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

// COUNTS is optional, so in `--predict RUN` the run is taken for COUNTS.
void separate_run_from_counts(ScalingOptions& options) {
  if (options.runs.empty() && !options.file &&
      options.predict.find_first_not_of("0123456789n, ") != std::string::npos) {
    options.runs.push_back(options.predict);
    options.predict.clear();
  }
}

void check_network_options(const ScalingOptions& options) {
  const auto option = find_network_option(options.network);
  if (!options.network.network && option) {
    throw Error(ExitCode::Usage, fmt::format("{} is only valid with --network", *option))
        .hint("--network 400Gb/s");
  }
  if (options.network.network &&
      (options.file || !options.plot.empty() || options.runs.size() > 1)) {
    throw Error(ExitCode::Usage, "--network predicts from one run, without -c and --plot")
        .fact("found",
              options.file           ? "-c"
              : options.plot.empty() ? "several runs"
                                     : "--plot")
        .hint("lockstep scaling --predict --network 400Gb/s RUN");
  }
}

void check_options(const ScalingOptions& options) {
  check_network_options(options);
  if (options.runs.empty() && !options.file && !options.network.network) {
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
  throw std::move(error.hint("run the missing sizes, or describe the network with --network"));
}

std::string printed(const report::Scaling& scaling, const ScalingOptions& options) {
  if (options.is_json) {
    return report::scaling_json(scaling);
  }
  return options.is_csv ? report::scaling_csv(scaling) : report::scaling_table(scaling);
}

int predict(const ScalingOptions& options, const std::vector<report::PredictedSize>& sizes) {
  std::optional<report::RunMeasure> run;
  if (!options.runs.empty()) {
    const std::vector<ComparedRun> runs = compared_runs(options.runs.front());
    if (runs.size() > 1) {
      throw Error(ExitCode::Usage, fmt::format("'{}' contains several runs", options.runs.front()))
          .fact("expected", "one run with one worker")
          .hint(fmt::format("lockstep scaling --predict --network {} {}",
                            *options.network.network,
                            quote_for_shell(runs.front().directory.root().string())));
    }
    run = report::measure_run(runs.front().directory);
  }
  const report::NetworkPrediction prediction = predict_from_one_gpu(options.network, run, sizes);
  os::write_output(options.is_json  ? report::prediction_json(prediction)
                   : options.is_csv ? report::prediction_csv(prediction)
                                    : report::prediction_table(prediction));
  return 0;
}

int compare(ScalingOptions options) {
  separate_run_from_counts(options);
  check_options(options);
  const std::vector<report::PredictedSize> sizes = predicted_sizes(options.predict);
  if (options.network.network) {
    return predict(options, sizes);
  }
  const report::Scaling scaling = report::compare_runs(measure(named_runs(options)), sizes);
  require_something(scaling);
  os::write_output(printed(scaling, options));
  if (!options.plot.empty()) {
    os::atomic_write(options.plot,
                     options.plot.ends_with(".svg") ? report::scaling_svg(scaling)
                                                    : report::scaling_page(scaling));
  }
  if (options.is_predict) {
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
  // Without COUNTS, the reader of the command line passes the default text.
  constexpr const char* kUsualSizes =
      "2, 4 and 8 times the largest run; with --network 8, 64 and 512";
  command
      ->add_option_function<std::string>(
          "--predict",
          [options](const std::string& text) {
            options->is_predict = true;
            options->predict = text == kUsualSizes ? "" : text;
          },
          "Numbers of workers to predict, or of nodes followed by n: 16,32,8n")
      ->expected(0, 1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
      ->type_name("COUNTS")
      ->default_str(kUsualSizes);
  command
      ->add_option("--plot", options->plot, "Write a chart to FILE.svg or all charts to FILE.html")
      ->type_name("FILE");
  command->add_flag("--json", options->is_json, "Print JSON");
  command->add_flag("--csv", options->is_csv, "Print CSV");
  add_network_options(*command, options->network);
  command->callback([options, &call] { call.exit_code = compare(*options); });
}

}  // namespace lockstep::cli
