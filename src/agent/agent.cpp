// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>

#include "agent/display.h"
#include "agent/failure.h"
#include "agent/fork_note.h"
#include "agent/placement.h"
#include "agent/supervisor.h"
#include "contract/run_directory.h"
#include "os/files.h"
#include "os/pipe.h"
#include "os/process.h"
#include "os/signals.h"
#include "plan/plan_json.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

// As short as it can be typed from here.
std::string short_name(const fs::path& path) {
  std::error_code ignored;
  const fs::path below = path.lexically_relative(fs::current_path(ignored));
  return below.empty() || *below.begin() == ".." ? path.string() : below.string();
}

void prepare(const contract::RunDirectory& run, const plan::LaunchPlan& plan, int attempt) {
  os::make_directories(run.log(attempt, 0).parent_path());
  os::remove_tree(run.failure());
  os::atomic_write(run.plan(), plan::to_json(plan));
}

// Lets the reader of our output take its time; a signal means that nobody wants the rest.
void finish(Display& display, os::SignalFd& signals) {
  display.write_some();
  while (display.waiting_fd() >= 0) {
    std::array<os::Watch, 2> watches = {os::Watch{.fd = signals.fd()},
                                        os::Watch{.fd = display.waiting_fd(), .for_write = true}};
    os::wait_for(watches, std::nullopt);
    while (const auto signal = signals.find_pending()) {
      if (*signal != SIGCHLD) {
        display.give_up();
      }
    }
    display.write_some();
  }
}

void report(const Failure& failure, const contract::RunDirectory& run, Display& display) {
  Failure shown = failure;
  shown.log = short_name(failure.log);
  display.add_lines(Display::Stream::Err, to_box(shown));
  os::atomic_write(run.failure(), to_json(failure));
}

}  // namespace

int run(const plan::LaunchPlan& plan, int node, const os::Environment& environment) {
  constexpr int kFirstAttempt = 0;
  const contract::RunDirectory run(plan.run_directory.value);
  const int workers = plan.nodes.at(static_cast<size_t>(node)).workers.value;
  Attempt attempt{.plan = plan,
                  .node = node,
                  .number = kFirstAttempt,
                  .executable = require_program(plan, environment),
                  .environment = environment,
                  .by_seed = false};
  attempt.by_seed = workers > 1 && program_takes_fork_offer(attempt.executable);
  if (node == 0) {
    require_port(plan);
  }

  os::ignore_signal(SIGPIPE);
  os::ignore_signal(SIGTTOU);
  os::become_subreaper();
  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD});
  Display display = Display::of_this_process();
  prepare(run, plan, attempt.number);
  display.add_lines(Display::Stream::Err,
                    fmt::format("lockstep: {} {}, run directory {}\n",
                                workers,
                                workers == 1 ? "worker" : "workers",
                                short_name(run.root())));
  display.write_some();

  const Outcome outcome = Supervisor(attempt, signals, display).run();
  if (outcome.failure) {
    report(*outcome.failure, run, display);
  }
  finish(display, signals);
  return outcome.exit_code;
}

}  // namespace lockstep::agent
