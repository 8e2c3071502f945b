// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>

#include "common/base/clock.h"
#include "common/contract/run_state.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/runs/jobs.h"
#include "launcher/cli/runs/watched_run.h"
#include "launcher/cli/subcommands.h"
#include "launcher/monitor/event_store.h"
#include "launcher/report/charts.h"
#include "launcher/report/page.h"
#include "launcher/report/report_html.h"
#include "launcher/report/report_json.h"
#include "launcher/report/report_text.h"
#include "launcher/report/run_facts.h"
#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Report how well a run used its resources, with advice\n"
    "\n"
    "Usage:\n"
    "  lockstep report [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN is a run directory or a name below ./runs, JOBID a Slurm job with a run. The\n"
    "report shows nodes and workers, utilization of GPUs, cores and memory compared\n"
    "with the allocation, a breakdown of the time, throughput, energy, restarts,\n"
    "stragglers and advice. It works during the run and after it, also if it failed.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep report\n"
    "  lockstep report --html report.html 4711\n"
    "  lockstep report --json runs/train-20240131-093000-1a2b\n"
    "\n"
    "Exit codes:\n"
    "  0    success, regardless of what the report shows\n"
    "  64   unknown run or job; the message suggests one\n"
    "  69   Slurm is not installed or does not respond\n"
    "  74   the file could not be written\n"
    "\n"
    "Files:\n"
    "  RUN/events/    events of workers and agents, see docs/events.md\n";

struct ReportOptions {
  std::string run;
  std::string html;
  bool is_json = false;
};

report::JobFacts job_facts(const slurm::JobInfo& info) {
  report::JobFacts facts{.state = std::string(slurm::name_of(info.state)),
                         .has_timed_out = info.state == slurm::JobState::TimedOut};
  if (info.limit_seconds && *info.limit_seconds != slurm::kUnlimited) {
    facts.limit_seconds = static_cast<double>(*info.limit_seconds);
  }
  return facts;
}

// Queries Slurm about the job of a run, if the run directory does not show how the run ended. A run
// that is done or alive needs no question. Slurm may be slow or absent, and the report must work on
// a copy of the run directory on another machine; a failure becomes a line under "Not available".
report::JobFacts ask_slurm(const Run& run) {
  const bool is_clear = !run.state || run.state->slurm_job.empty() ||
                        run.state->phase == contract::RunPhase::Done ||
                        contract::sign_of(*run.state, wall_time()) == contract::Sign::Alive;
  if (is_clear) {
    return {};
  }
  try {
    const slurm::Client client(os::environment());
    const JobArgument job =
        job_named(client, run.state->slurm_job, std::filesystem::current_path());
    return job.tasks.size() == 1 ? job_facts(job.tasks.front()) : report::JobFacts{};
  } catch (const Error& error) {
    return {.why_not = error.sentence()};
  }
}

// 512 points for each rank or GPU instead of 256, because a chart shows up to 300.
int report_run(const ReportOptions& options) {
  constexpr size_t kPointsOfMany = 512;
  const Run run = watched_run(options.run);
  monitor::EventStore store(run.directory, {.points_of_many = kPointsOfMany});
  store.poll();
  const report::RunFacts facts =
      report::gather_facts(run.directory, store, ask_slurm(run), wall_time());
  const report::Page page = report::make_page(facts);
  if (!options.html.empty()) {
    os::atomic_write(options.html, report::report_html(page, report::make_charts(facts, store)));
  }
  os::write_output(options.is_json ? report::report_json(facts) : report::report_text(page));
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Call& call) {
  auto options = std::make_shared<ReportOptions>();
  CLI::App* command = app.add_subcommand("report", kDescription);
  command->footer(kFooter);
  command->add_option("RUN", options->run, "Run or job [newest run below ./runs]");
  command->add_option("--html", options->html, "Also write the report as an HTML page with charts")
      ->type_name("FILE");
  command->add_flag("--json", options->is_json, "Print JSON, see docs/report.md");
  command->callback([options, &call] { call.exit_code = report_run(*options); });
}

}  // namespace lockstep::cli
