// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/cancel.h"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <thread>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/host.h"
#include "common/os/process_identity.h"
#include "common/os/terminal.h"
#include "launcher/cli/runs/job_cancel.h"
#include "launcher/cli/runs/jobs.h"
#include "launcher/cli/runs/status.h"
#include "launcher/cli/subcommands.h"
#include "lockstep/error.h"

// A request has two paths, and the leader treats them as one:
//
//   RUN/cancel   works from every node that sees the directory; can carry a grace period
//   signal       only on the host of the leader; immediate
//
// The file is written first, so it exists when the signal arrives. If the leader has ended in
// between, both have no effect; the next run in this directory removes the file.
namespace lockstep::cli {
namespace {

using std::chrono::milliseconds;

constexpr const char* kDescription =
    "Stop a run or a Slurm job\n"
    "\n"
    "Usage:\n"
    "  lockstep cancel [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN is a run directory or a name below ./runs. As with Ctrl-C, workers get\n"
    "SIGTERM, and SIGKILL after the grace period. The command returns when the run\n"
    "has ended. It works on every node that can access the run directory.\n"
    "\n"
    "JOBID is a Slurm job. A run in the job is stopped first, then the job ends.\n"
    "Slurm ends the job directly if it has no run, or with --now.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep cancel\n"
    "  lockstep cancel --now train-20240131-093000-1a2b\n"
    "  lockstep cancel 4711\n"
    "\n"
    "Exit codes:\n"
    "  0    the run or job has ended\n"
    "  64   unknown run or job, or the job belongs to another user\n"
    "  69   the run or job cannot be reached or does not end\n"
    "  74   RUN/cancel cannot be written\n"
    "\n"
    "Files:\n"
    "  RUN/cancel    the request; the launcher checks for it twice a second\n";

// Added to the grace period: the leader polls for the request, agents clean up, and a network file
// system shows changes late.
constexpr double kTimeToEnd = 20;
// A live leader reacts to a request in much less time.
constexpr double kTimeToAnswer = 12;
constexpr milliseconds kPause(100);

// The final message if the run has ended. Gone (the process does not exist on this host) is also an
// end. Silent is different: the host may be unreachable for a while, or its clock may be wrong.
std::optional<std::string> find_end(const Run& run, const contract::RunState& state, double now) {
  switch (contract::sign_of(state, now)) {
    case contract::Sign::Ended: {
      const std::string code =
          state.exit_code ? fmt::format(" (exit code {})", *state.exit_code) : "";
      return fmt::format("{} has ended: {}{}", run.name, contract::name_of(state.phase), code);
    }
    case contract::Sign::Gone:
      return fmt::format(
          "{} is {}", run.name, state_sentence({run.directory, run.name, state}, now));
    default:
      return std::nullopt;
  }
}

// Maximum time to wait for the end of a run in this state. A silent leader gets less time: if its
// host is down, nothing will happen, and the user should see the hint soon. The time starts at the
// request, and the state is judged again in each turn.
double patience_with(const Run& run, const contract::RunState& state, double grace, double now) {
  // A launcher whose clock is behind looks silent; it is not if it has updated its state since.
  const bool is_silent = contract::sign_of(state, now) == contract::Sign::Silent &&
                         state.updated == run.state->updated;
  return is_silent ? kTimeToAnswer : grace + kTimeToEnd;
}

// The request stays valid: a leader that can read the directory again will stop.
[[noreturn]] void refuse(const Run& run,
                         const contract::RunState& state,
                         double now,
                         const CancelOptions& options) {
  if (contract::sign_of(state, now) == contract::Sign::Silent) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot reach the launcher of {}", run.name))
        .fact("state", state_sentence({run.directory, run.name, state}, now), "state.json")
        .fact("file", run.directory.cancel().string(), "still valid")
        .hint(state.slurm_job.empty()
                  ? fmt::format("ssh {} kill {}", state.host, state.launcher.pid)
                  : fmt::format("scancel {}", state.slurm_job));
  }
  throw Error(ExitCode::Unavailable, fmt::format("timed out waiting for {} to stop", run.name))
      .fact("state", contract::name_of(state.phase), "state.json")
      .hint(options.is_now ? fmt::format("ssh {} kill -9 {}", state.host, state.launcher.pid)
                           : fmt::format("lockstep cancel --now {}", run.name));
}

void ask(const Run& run,
         const contract::RunState& state,
         const CancelOptions& options,
         double now) {
  contract::write_cancel(run.directory,
                         {.who = options.who,
                          .time = now,
                          .is_now = options.is_now,
                          .grace_seconds = options.grace_seconds});
  // The signal only saves the half second until the leader polls, and cannot carry a grace period.
  if (!options.grace_seconds) {
    os::send_signal(state.launcher, options.is_now ? SIGQUIT : SIGTERM);
  }
}

}  // namespace

// The state is read again in each turn. If it disappears or cannot be read, the last known one
// counts.
void cancel_run(const Run& run,
                const CancelOptions& options,
                const CancelClock& clock,
                const std::function<void(const std::string&)>& tell,
                const std::function<void(const std::string&)>& wait) {
  if (!run.state) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot cancel {}", run.name))
        .fact("found", "no state.json: not started by lockstep run, or by an older version")
        .hint("press Ctrl-C in the terminal of the run");
  }
  contract::RunState state = *run.state;
  const double begin = clock.now();
  if (contract::is_end(state.phase)) {
    tell(fmt::format("{} has already ended: {}", run.name, contract::name_of(state.phase)));
    return;
  }
  const double grace = options.is_now ? 0 : options.grace_seconds.value_or(state.grace_seconds);
  if (contract::sign_of(state, begin) != contract::Sign::Gone) {
    ask(run, state, options, begin);
    tell(options.is_now ? fmt::format("killing {}", run.name)
                        : fmt::format("stopping {} (at most {} s)", run.name, grace));
  }
  for (double now = begin;; now = clock.now()) {
    state = contract::find_state(run.directory).value_or(state);
    if (const auto end = find_end(run, state, now)) {
      tell(*end);
      return;
    }
    if (now - begin > patience_with(run, state, grace, now)) {
      refuse(run, state, now, options);
    }
    wait(fmt::format(
        "{}: {}, {}", run.name, contract::name_of(state.phase), format_duration(now - begin)));
    clock.sleep(kPause);
  }
}

namespace {

std::string who_asks() {
  const auto user = os::find_variable(os::environment(), "USER");
  return fmt::format("{}@{}", user.value_or("unknown"), os::host_name());
}

std::optional<double> find_grace(const std::optional<std::string>& text) {
  if (!text) {
    return std::nullopt;
  }
  char* end = nullptr;
  const double seconds = std::strtod(text->c_str(), &end);
  if (text->empty() || *end != '\0' || !(seconds >= 0)) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --grace", *text))
        .fact("expected", "a number of seconds, 0 or more")
        .hint("--grace 10");
  }
  return seconds;
}

}  // namespace

void add_cancel(CLI::App& app, Call& /*call*/) {
  struct CancelArguments {
    std::string run;
    bool is_now = false;
    std::optional<std::string> grace;
  };
  auto options = std::make_shared<CancelArguments>();
  CLI::App* cancel = app.add_subcommand("cancel", kDescription);
  cancel->footer(kFooter);
  cancel->add_option("RUN", options->run, "Run or job to stop [newest run below ./runs]");
  cancel->add_flag("--now", options->is_now, "Kill the workers immediately");
  cancel->add_option("--grace", options->grace, "Grace period: time between SIGTERM and SIGKILL")
      ->type_name("SECONDS")
      ->default_str("grace period of the run");
  cancel->callback([options] {
    const CancelOptions asked{
        .is_now = options->is_now, .grace_seconds = find_grace(options->grace), .who = who_asks()};
    const bool is_watched = os::is_terminal(2);
    const std::string_view clear = is_watched ? "\r\x1b[2K" : "";
    const CancelContext context{.clock = {.now = wall_time,
                                          .sleep =
                                              [](milliseconds time) {
                                                std::this_thread::sleep_for(time);
                                              }},
                                .tell =
                                    [clear](const std::string& text) {
                                      fmt::print(stderr, "{}lockstep: {}\n", clear, text);
                                    },
                                .wait =
                                    [clear, is_watched](const std::string& text) {
                                      if (is_watched) {
                                        fmt::print(stderr, "{}{}", clear, text);
                                      }
                                    }};
    const std::filesystem::path here = std::filesystem::current_path();
    if (means_job(options->run, here)) {
      const slurm::Client client(os::environment());
      cancel_job(client, job_named(client, options->run, here), asked, context);
      return;
    }
    cancel_run(run_named(options->run, here), asked, context.clock, context.tell, context.wait);
  });
}

}  // namespace lockstep::cli
