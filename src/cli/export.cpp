// SPDX-License-Identifier: Apache-2.0
#include "monitor/export.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <memory>
#include <string_view>

#include "base/text.h"
#include "cli/export_tensorboard.h"
#include "cli/subcommands.h"
#include "cli/watched_run.h"
#include "lockstep/error.h"
#include "monitor/event_store.h"
#include "os/files.h"
#include "os/standard_streams.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Write a run's curves and events for other programs\n"
    "\n"
    "Usage:\n"
    "  lockstep export [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN and JOBID as for lockstep watch. Writes what is there now: every series\n"
    "(loss, learning_rate, rank/3/own_seconds, node/0/gpu/1/utilisation ...) and the\n"
    "marks: start, restart, checkpoint, evaluation, end. For TensorBoard it goes on\n"
    "with --follow; there, series of single ranks are written only if --series\n"
    "names them.";

constexpr const char* kFooter =
    "Columns of csv:\n"
    "  kind    series, or mark\n"
    "  name    of the series; of the mark its kind\n"
    "  time    in seconds since 1970\n"
    "  step    at which the gang was\n"
    "  mean    the value; of very long series the mean of neighbours\n"
    "  low     the least of these\n"
    "  high    the greatest of these\n"
    "  text    of a mark\n"
    "\n"
    "Examples:\n"
    "  lockstep export --output run.csv\n"
    "  lockstep export --format json --series loss,evaluation/* 4711\n"
    "  lockstep export --format tensorboard --follow runs/train-a\n"
    "\n"
    "Exit codes:\n"
    "  0    done\n"
    "  64   there is no such run, job or series; the message proposes one\n"
    "  69   Slurm is not here, or does not answer; another lockstep writes to DIR;\n"
    "       built without protobuf, which TensorBoard's files need\n"
    "  74   the file cannot be written\n"
    "\n"
    "Files:\n"
    "  DIR/events.out.tfevents.*.lockstep    what TensorBoard reads; those of an\n"
    "                                        earlier export are replaced\n";

struct Words {
  std::string run;
  std::string format = "csv";
  std::string series;
  std::string output;
  bool is_following = false;
  bool is_waiting = false;
};

void check_format(const Words& words) {
  constexpr std::array<std::string_view, 3> kFormats = {"csv", "json", "tensorboard"};
  if (std::find(kFormats.begin(), kFormats.end(), words.format) == kFormats.end()) {
    throw Error(ExitCode::Usage, fmt::format("cannot write the format '{}'", words.format))
        .fact("expected", "csv, json or tensorboard", "--format")
        .hint("--format csv");
  }
  if (words.is_following && words.format != "tensorboard") {
    throw Error(ExitCode::Usage, fmt::format("cannot follow a run as {}", words.format))
        .fact("asked", fmt::format("--follow with --format {}", words.format), "command line")
        .hint("--format tensorboard --follow, or without --follow what is there now");
  }
  if (words.is_waiting && !words.is_following) {
    throw Error(ExitCode::Usage, "cannot wait for a run without following it")
        .fact("asked", "--wait without --follow", "command line")
        .hint("--format tensorboard --follow --wait");
  }
}

int export_run(const Words& words) {
  check_format(words);
  if (words.format == "tensorboard") {
    return export_tensorboard({.run = words.run,
                               .directory = words.output,
                               .series = split(words.series, ','),
                               .is_following = words.is_following,
                               .is_waiting = words.is_waiting});
  }
  // More than a screen needs: a file shall have every value of all but the longest runs.
  constexpr size_t kPoints = size_t{1} << 20;
  constexpr size_t kPointsOfMany = size_t{1} << 14;
  monitor::EventStore store(watched_run(words.run).directory,
                            {.points = kPoints, .points_of_many = kPointsOfMany});
  store.poll();
  const auto series = monitor::choose_series(store, split(words.series, ','));
  const std::string text = words.format == "csv" ? monitor::export_csv(store, series)
                                                 : monitor::export_json(store, series);
  if (words.output.empty()) {
    os::write_output(text);
  } else {
    os::atomic_write(words.output, text);
  }
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Call& call) {
  auto words = std::make_shared<Words>();
  CLI::App* command = app.add_subcommand("export", kDescription);
  command->footer(kFooter);
  command->add_option("RUN", words->run, "The run or job; the newest run below ./runs if left out");
  command->add_option("--format", words->format, "csv, json or tensorboard")
      ->type_name("FORMAT")
      ->default_str("csv");
  command->add_option("--series", words->series, "Only these, with commas; * is any text")
      ->type_name("NAMES")
      ->default_str("all");
  command->add_option("--output", words->output, "Where to write it; for TensorBoard a directory")
      ->type_name("FILE")
      ->default_str("stdout; RUN/tensorboard");
  command->add_flag(
      "--follow", words->is_following, "For TensorBoard: go on writing until the run has ended");
  command->add_flag("--wait", words->is_waiting, "Follow a RUN that has not begun, when it does");
  command->callback([words, &call] { call.exit_code = export_run(*words); });
}

}  // namespace lockstep::cli
