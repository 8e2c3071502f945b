// SPDX-License-Identifier: Apache-2.0
#include "monitor/export.h"

#include <fmt/format.h>
#include <memory>

#include "base/text.h"
#include "cli/subcommands.h"
#include "cli/watched_run.h"
#include "lockstep/error.h"
#include "monitor/event_store.h"
#include "os/files.h"
#include "os/pipe.h"

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
    "marks: start, restart, checkpoint, evaluation, end.";

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
    "\n"
    "Exit codes:\n"
    "  0    done\n"
    "  64   there is no such run, job or series; the message proposes one\n"
    "  69   Slurm is not here, or does not answer\n"
    "  74   the file cannot be written\n";

struct Words {
  std::string run;
  std::string format = "csv";
  std::string series;
  std::string output;
};

int export_run(const Words& words) {
  if (words.format != "csv" && words.format != "json") {
    throw Error(ExitCode::Usage, fmt::format("cannot write the format '{}'", words.format))
        .fact("expected", "csv or json", "--format")
        .hint("--format csv");
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
    os::write_all(1, text);
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
  command->add_option("--format", words->format, "csv or json")
      ->type_name("FORMAT")
      ->default_str("csv");
  command->add_option("--series", words->series, "Only these, with commas; * is any text")
      ->type_name("NAMES")
      ->default_str("all");
  command->add_option("--output", words->output, "Where to write it")
      ->type_name("FILE")
      ->default_str("stdout");
  command->callback([words, &call] { call.exit_code = export_run(*words); });
}

}  // namespace lockstep::cli
