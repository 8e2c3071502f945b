// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/run/viewers.h"

#include <array>
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/os/host.h"
#include "common/os/pipe.h"
#include "launcher/monitor/http_server.h"
#include "launcher/monitor/tensorboard_messages.h"
#include "lockstep/error.h"

// A viewer reads the run directory as any other user would; there is no connection to the run. Two
// properties make it safe to start one for every run: it has its own process group, so that Ctrl-C
// does not end it before the workers, and it gets SIGKILL when its parent, the guard, ends.
namespace lockstep::cli {
namespace {

// With manually started nodes, every node runs this command; only node 0 has the leader and shows
// the run.
std::optional<os::Child> start_in_background(const plan::LaunchPlan& plan,
                                             const os::Environment& environment,
                                             std::vector<std::string> arguments,
                                             std::vector<int> blocked = {}) {
  if (plan.mode.value == plan::LaunchMode::Peers && plan.rendezvous.node.value_or(0) != 0) {
    return std::nullopt;
  }
  arguments.insert(arguments.begin(), "lockstep");
  return os::start({.executable = os::own_executable(),
                    .arguments = std::move(arguments),
                    .environment = environment,
                    .stdout_fd = 2,  // stdout is for output of the workers
                    .inherited = {},
                    .directory = "",
                    .has_own_group = true,  // Ctrl-C must reach only the run
                    .dies_with_parent = true,
                    .blocked = std::move(blocked)});
}

}  // namespace

void start_dashboard(const plan::LaunchPlan& plan, const os::Environment& environment) {
  if (plan.mode.value == plan::LaunchMode::Task) {
    throw Error(ExitCode::Usage, "--dashboard is not available under another launcher")
        .fact("found", "one lockstep run process per worker")
        .hint(
            fmt::format("lockstep dashboard --wait {}", quote_for_shell(plan.run_directory.value)));
  }
  if (!monitor::has_http_server()) {
    throw Error(ExitCode::Unavailable, "cannot serve a dashboard: built without cpp-httplib")
        .hint("drop --dashboard, or rebuild lockstep with libcpp-httplib-dev");
  }
  start_in_background(plan, environment, {"dashboard", "--wait", plan.run_directory.value});
}

std::optional<os::Child> start_tensorboard(const plan::LaunchPlan& plan,
                                           const os::Environment& environment,
                                           const std::string& directory) {
  const std::string& run = plan.run_directory.value;
  if (plan.mode.value == plan::LaunchMode::Task) {
    throw Error(ExitCode::Usage, "--tensorboard is not available under another launcher")
        .fact("found", "one lockstep run process per worker")
        .hint(fmt::format("lockstep export --format tensorboard --follow --wait {}",
                          quote_for_shell(run)));
  }
  if (!monitor::has_tensorboard()) {
    throw Error(ExitCode::Unavailable, "cannot write TensorBoard files: built without protobuf")
        .hint("drop --tensorboard, or rebuild lockstep with libprotobuf-dev");
  }
  std::vector<std::string> arguments = {
      "export", "--format", "tensorboard", "--follow", "--wait", run};
  if (!directory.empty()) {
    arguments.insert(arguments.end(), {"--output", directory});
  }
  // SIGTERM is blocked from the start: a run can end before the writer handles signals, and the
  // signal then stays pending until it does.
  return start_in_background(plan, environment, std::move(arguments), {SIGTERM});
}

void finish_tensorboard(const os::Child& writer) {
  constexpr std::chrono::seconds kPatience(5);
  writer.signal(SIGTERM);
  std::array<os::Watch, 1> watches = {os::Watch{.fd = writer.fd()}};
  os::wait_for(watches, kPatience);
}

}  // namespace lockstep::cli
