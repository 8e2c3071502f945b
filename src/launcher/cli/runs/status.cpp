// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/status.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/contract/event.h"
#include "common/os/environment.h"
#include "launcher/cli/runs/jobs.h"
#include "launcher/cli/subcommands.h"
#include "lockstep/error.h"

// Reads little per run, because the table can have hundreds of rows on a network file system: the
// state, and the last 64 KiB of the events of rank 0. The full store of lockstep watch would read
// all of it.
namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kDescription =
    "List runs, or show the state of a run or Slurm job\n"
    "\n"
    "Usage:\n"
    "  lockstep status [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN is a run directory or a name below ./runs. Without RUN, lists all runs below\n"
    "./runs, newest first. The command works on every node that can access the run\n"
    "directory. JOBID is a Slurm job, 123 or 123_4 of an array; its run is shown too.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep status\n"
    "  lockstep status --json runs/train-20240131-093000-1a2b\n"
    "  lockstep status --wait 4711\n"
    "\n"
    "Exit codes:\n"
    "  0    success, regardless of the state\n"
    "  64   unknown run or job; the message suggests one\n"
    "  69   Slurm is not installed or does not respond\n"
    "  74   state.json could not be read\n"
    "\n"
    "Exit codes with --wait:\n"
    "  N    exit code of the job script, or 128 plus the signal that killed it\n"
    "  69   a node of the job failed, or Slurm does not respond\n"
    "  75   the job was preempted\n"
    "  124  the job reached its time limit\n"
    "  130  the job was cancelled, or Ctrl-C ended the wait (the job continues)\n"
    "  137  the job ran out of memory\n"
    "\n"
    "Files:\n"
    "  RUN/state.json    written by the launcher at least every five seconds\n";

// The last 64 KiB of a file, which are enough for many lines. The first line is usually cut and
// then ignored: it is not valid JSON.
std::string read_end(const fs::path& path) {
  constexpr std::streamoff kEnoughBytes = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return "";
  }
  const std::streamoff size = file.tellg();
  file.seekg(size > kEnoughBytes ? size - kEnoughBytes : 0);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Parses a line of an event file; nothing for an incomplete line or another event. Events of rank 0
// are read while it writes them. A line that is cut at either end does not parse and is skipped.
std::optional<RunProgress> find_step(const std::string& line) {
  try {
    const contract::Event event = contract::parse_event(line);
    const auto step = contract::find_number(event, "step");
    if (event.kind != "step" || !step) {
      return std::nullopt;
    }
    return RunProgress{.step = static_cast<int64_t>(*step),
                       .loss = contract::find_number(event, "loss"),
                       .samples_per_second = contract::find_number(event, "samples_per_second")};
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Parses a line with a metric of --metric; nothing for an incomplete line or another event.
std::optional<std::pair<std::string, double>> find_metric(const std::string& line) {
  try {
    const contract::Event event = contract::parse_event(line);
    const auto value = contract::find_number(event, "value");
    for (const auto& [key, field] : event.fields) {
      const auto* name = std::get_if<std::string>(&field);
      if (event.kind == "metric" && key == "name" && name != nullptr && value) {
        return std::pair(*name, *value);
      }
    }
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Progress of a program without events, from the metrics that --metric found in its output.
std::optional<RunProgress> find_reported_progress(const contract::RunDirectory& run) {
  std::map<std::string, double> newest;
  for (const std::string& line : split(read_end(run.output_metrics(0)), '\n')) {
    if (const auto metric = find_metric(line)) {
      newest[metric->first] = metric->second;
    }
  }
  const auto find = [&newest](const char* name) {
    const auto found = newest.find(name);
    return found == newest.end() ? std::nullopt : std::optional(found->second);
  };
  RunProgress progress{
      .step = {}, .loss = find("loss"), .samples_per_second = find("samples_per_second")};
  constexpr double kMaxSteps = 1e15;  // larger values are not step numbers
  if (const auto step = find("step"); step && std::abs(*step) < kMaxSteps) {
    progress.step = static_cast<int64_t>(*step);
  }
  const bool is_known = progress.step || progress.loss || progress.samples_per_second;
  return is_known ? std::optional(progress) : std::nullopt;
}

double last_sign(const contract::RunState& state, double now) {
  return std::max(0.0, now - state.updated);
}

// Run time so far, or total run time.
double age_of(const contract::RunState& state, double now) {
  return std::max(0.0, state.ended.value_or(now) - state.started);
}

using Row = std::vector<std::string>;

Row row_of(const Run& run, double now) {
  const auto progress = find_progress(run.directory);
  const std::string step = progress && progress->step ? std::to_string(*progress->step) : "-";
  const std::string loss =
      progress && progress->loss ? fmt::format("{:.4g}", *progress->loss) : "-";
  if (!run.state) {
    return {run.name, state_word(run, now), "-", "-", "-", "-", "-", step, loss};
  }
  const contract::RunState& state = *run.state;
  return {run.name,
          state_word(run, now),
          format_duration(age_of(state, now)),
          std::to_string(state.nodes.size()),
          std::to_string(state.world_size),
          std::to_string(state.attempt),
          state.exit_code ? std::to_string(*state.exit_code) : "-",
          step,
          loss};
}

std::string line(std::string_view label, std::string_view text) {
  return fmt::format("{:<10} {}\n", label, text);
}

std::string describe_progress(const RunProgress& progress) {
  std::vector<std::string> parts;
  if (progress.step) {
    parts.push_back(fmt::format("step {}", *progress.step));
  }
  if (progress.loss) {
    parts.push_back(fmt::format("loss {:.4g}", *progress.loss));
  }
  if (progress.samples_per_second) {
    parts.push_back(fmt::format("{:.0f} samples/s", *progress.samples_per_second));
  }
  return join(parts, ", ");
}

Json json_of(const Run& run, double now) {
  Json json = {{"directory", run.directory.root().string()}, {"status", state_word(run, now)}};
  if (run.state) {
    json["last_sign_seconds"] = last_sign(*run.state, now);
    json["age_seconds"] = age_of(*run.state, now);
    json["run"] = Json::parse(contract::to_json(*run.state));
  }
  if (const auto progress = find_progress(run.directory)) {
    json["step"] = progress->step ? Json(*progress->step) : Json(nullptr);
    json["loss"] = progress->loss ? Json(*progress->loss) : Json(nullptr);
  }
  return json;
}

}  // namespace

// The last match wins, so lines are read in order. After a rotation the current file can have no
// step yet; the metrics of the output are tried then.
std::optional<RunProgress> find_progress(const contract::RunDirectory& run) {
  std::optional<RunProgress> newest;
  for (const std::string& line : split(read_end(run.events(0)), '\n')) {
    if (const auto progress = find_step(line)) {
      newest = progress;
    }
  }
  return newest ? newest : find_reported_progress(run);
}

// "lost" is not a phase in the file: a launcher that was killed cannot write it. It is derived from
// the process or from the age of the last update.
std::string state_word(const Run& run, double now) {
  if (!run.state) {
    return "unknown";
  }
  const contract::Sign sign = contract::sign_of(*run.state, now);
  const bool is_lost = sign == contract::Sign::Gone || sign == contract::Sign::Silent;
  return is_lost ? "lost" : std::string(contract::name_of(run.state->phase));
}

std::string state_sentence(const Run& run, double now) {
  if (!run.state) {
    return "unknown: no state.json";
  }
  const std::string sign = fmt::format(
      "host {}, last update {} ago", run.state->host, format_duration(last_sign(*run.state, now)));
  switch (contract::sign_of(*run.state, now)) {
    case contract::Sign::Gone:
      return fmt::format("lost: the launcher no longer exists ({})", sign);
    case contract::Sign::Silent:
      return fmt::format("lost: the launcher does not respond ({})", sign);
    default:
      return std::string(contract::name_of(run.state->phase));
  }
}

std::string status_table(std::span<const Run> runs, double now) {
  std::vector<Row> rows = {
      {"run", "state", "time", "nodes", "workers", "attempt", "exit", "step", "loss"}};
  for (const Run& run : runs) {
    rows.push_back(row_of(run, now));
  }
  return format_table(rows);
}

std::string status_page(const Run& run, double now) {
  std::string page = line("run", run.state ? run.state->run_id : run.name);
  page += line("directory", run.directory.root().string());
  page += line("state", state_sentence(run, now));
  if (run.state) {
    const contract::RunState& state = *run.state;
    page += line("time", format_duration(age_of(state, now)));
    page += line("launcher", fmt::format("process {} on {}", state.launcher.pid, state.host));
    if (!state.slurm_job.empty()) {
      page += line("job", state.slurm_job);
    }
    page += line("attempt", std::to_string(state.attempt));
    page += line(
        "workers",
        fmt::format(
            "{} on {}", state.world_size, plural(static_cast<int>(state.nodes.size()), "node")));
    for (const contract::RunNode& node : state.nodes) {
      const std::string way =
          node.interface.empty() ? "" : fmt::format(", {} {}", node.interface, node.address);
      page += line("", fmt::format("{}: {}{}", node.name, plural(node.workers, "worker"), way));
    }
  }
  if (const auto progress = find_progress(run.directory)) {
    page += line("progress", describe_progress(*progress));
  }
  if (run.state && run.state->exit_code) {
    page += line("exit code", std::to_string(*run.state->exit_code));
  }
  std::error_code ignored;
  if (fs::exists(run.directory.failure(), ignored)) {
    page += line("failure", run.directory.failure().string());
  }
  return page;
}

std::string status_json(const Run& run, double now) {
  return json_of(run, now).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string status_json(std::span<const Run> runs, double now) {
  Json all = Json::array();
  for (const Run& run : runs) {
    all.push_back(json_of(run, now));
  }
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

namespace {

struct StatusOptions {
  std::string run;
  bool wants_json = false;
  bool wants_wait = false;
};

// Returns the exit code of the command.
// With --wait and --json, the state is read again after the end: the page must show the final
// state, not the one at the start of the wait.
int show_job(const StatusOptions& options, const fs::path& here) {
  const slurm::Client client(os::environment());
  if (options.wants_wait) {
    const auto code = follow_job(options.run);
    if (code && options.wants_json) {
      fmt::print("{}", job_json(job_named(client, options.run, here), wall_time()));
    }
    return code.value_or(static_cast<int>(ExitCode::Interrupted));
  }
  const JobArgument job = job_named(client, options.run, here);
  fmt::print("{}", options.wants_json ? job_json(job, wall_time()) : job_page(job, wall_time()));
  return 0;
}

void show_all(const StatusOptions& options, const fs::path& here, double now) {
  const std::vector<Run> runs = find_runs(here);
  if (options.wants_json) {
    fmt::print("{}", status_json(runs, now));
  } else if (runs.empty()) {
    fmt::print("no runs below {}\n", (here / "runs").string());
  } else {
    fmt::print("{}", status_table(runs, now));
  }
}

int show(const StatusOptions& options) {
  const fs::path here = fs::current_path();
  const double now = wall_time();
  if (means_job(options.run, here)) {
    return show_job(options, here);
  }
  if (options.wants_wait) {
    throw Error(ExitCode::Usage, "--wait requires a Slurm job")
        .fact("found", options.run.empty() ? "no JOBID" : options.run, "command line")
        .hint(options.run.empty() ? std::string("lockstep status --wait JOBID")
                                  : fmt::format("lockstep logs -f {}", options.run));
  }
  if (options.run.empty()) {
    show_all(options, here, now);
    return 0;
  }
  const Run run = run_named(options.run, here);
  fmt::print("{}", options.wants_json ? status_json(run, now) : status_page(run, now));
  return 0;
}

}  // namespace

void add_status(CLI::App& app, Call& call) {
  auto options = std::make_shared<StatusOptions>();
  CLI::App* status = app.add_subcommand("status", kDescription);
  status->footer(kFooter);
  status->add_option("RUN", options->run, "Run or job [all runs below ./runs]");
  status->add_flag("--json", options->wants_json, "Print JSON");
  status->add_flag(
      "--wait", options->wants_wait, "Wait for the end of the job; exit with its code");
  status->callback([options, &call] { call.exit_code = show(*options); });
}

}  // namespace lockstep::cli
