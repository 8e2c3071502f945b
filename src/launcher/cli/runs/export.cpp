// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/export.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>
#include <string_view>

#include "common/base/text.h"
#include "common/os/files.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/runs/export_tensorboard.h"
#include "launcher/cli/runs/watched_run.h"
#include "launcher/cli/subcommands.h"
#include "launcher/monitor/event_store.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Export metrics and events of a run as CSV, JSON or TensorBoard files\n"
    "\n"
    "Usage:\n"
    "  lockstep export [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN is a run directory or a name below ./runs, JOBID a Slurm job with a run.\n"
    "Exports the values so far of every series (loss, learning_rate,\n"
    "rank/3/own_seconds, node/0/gpu/1/utilisation ...) and the marks: start, restart,\n"
    "checkpoint, evaluation, end. For TensorBoard, --follow continues until the run\n"
    "ends, and series of single ranks are written only if --series names them.";

constexpr const char* kFooter =
    "Columns of csv:\n"
    "  kind    series or mark\n"
    "  name    name of the series, or kind of the mark\n"
    "  time    seconds since 1970\n"
    "  step    step of the run at that time\n"
    "  mean    value; in very long series the mean of neighbouring values\n"
    "  low     minimum of these values\n"
    "  high    maximum of these values\n"
    "  text    text of a mark\n"
    "\n"
    "Examples:\n"
    "  lockstep export --output run.csv\n"
    "  lockstep export --format json --series loss,evaluation/* 4711\n"
    "  lockstep export --format tensorboard --follow runs/train-a\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  64   unknown run, job or series; the message suggests one\n"
    "  69   Slurm is not installed or does not respond; another lockstep writes to\n"
    "       DIR; or lockstep was built without protobuf, which TensorBoard files need\n"
    "  74   the file could not be written\n"
    "\n"
    "Files:\n"
    "  DIR/events.out.tfevents.*.lockstep    files for TensorBoard; replace those of\n"
    "                                        an earlier export\n";

struct ExportOptions {
  std::string run;
  std::string format = "csv";
  std::string series;
  std::string output;
  bool is_following = false;
  bool is_waiting = false;
};

void check_format(const ExportOptions& options) {
  constexpr std::array<std::string_view, 3> kFormats = {"csv", "json", "tensorboard"};
  if (std::find(kFormats.begin(), kFormats.end(), options.format) == kFormats.end()) {
    throw Error(ExitCode::Usage, fmt::format("unknown format '{}'", options.format))
        .fact("expected", "csv, json or tensorboard", "--format")
        .hint("--format csv");
  }
  if (options.is_following && options.format != "tensorboard") {
    throw Error(ExitCode::Usage, fmt::format("--follow is not available for {}", options.format))
        .fact("requested", fmt::format("--follow with --format {}", options.format), "command line")
        .hint("--format tensorboard --follow, or drop --follow");
  }
  if (options.is_waiting && !options.is_following) {
    throw Error(ExitCode::Usage, "--wait requires --follow")
        .fact("requested", "--wait without --follow", "command line")
        .hint("--format tensorboard --follow --wait");
  }
}

int export_run(const ExportOptions& options) {
  check_format(options);
  if (options.format == "tensorboard") {
    return export_tensorboard({.run = options.run,
                               .directory = options.output,
                               .series = split(options.series, ','),
                               .is_following = options.is_following,
                               .is_waiting = options.is_waiting});
  }
  // Larger than the limits of watch and dashboard: a file contains every value of all but the
  // longest runs.
  constexpr size_t kPoints = size_t{1} << 20;
  constexpr size_t kPointsOfMany = size_t{1} << 14;
  monitor::EventStore store(watched_run(options.run).directory,
                            {.points = kPoints, .points_of_many = kPointsOfMany});
  store.poll();
  const auto series = monitor::choose_series(store, split(options.series, ','));
  const std::string text = options.format == "csv" ? monitor::export_csv(store, series)
                                                   : monitor::export_json(store, series);
  if (options.output.empty()) {
    os::write_output(text);
  } else {
    os::atomic_write(options.output, text);
  }
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Call& call) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = app.add_subcommand("export", kDescription);
  command->footer(kFooter);
  command->add_option("RUN", options->run, "Run or job to export [newest run below ./runs]");
  command->add_option("--format", options->format, "Format: csv, json or tensorboard")
      ->type_name("FORMAT")
      ->default_str("csv");
  command
      ->add_option(
          "--series", options->series, "Series to export, separated by commas; * matches any text")
      ->type_name("NAMES")
      ->default_str("all");
  command->add_option("--output", options->output, "Output file; for TensorBoard a directory")
      ->type_name("FILE")
      ->default_str("stdout; TensorBoard: RUN/tensorboard");
  command->add_flag(
      "--follow", options->is_following, "For TensorBoard: continue until the run has ended");
  command->add_flag(
      "--wait", options->is_waiting, "With --follow: also accept a RUN that has not started yet");
  command->callback([options, &call] { call.exit_code = export_run(*options); });
}

}  // namespace lockstep::cli
