// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/dashboard.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/os/host.h"
#include "common/os/pipe.h"
#include "common/os/signals.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/runs/runs.h"
#include "launcher/cli/subcommands.h"
#include "launcher/monitor/access.h"
#include "launcher/monitor/http_server.h"
#include "launcher/monitor/site.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Show runs in a browser, live: curves, ranks, stragglers, logs\n"
    "\n"
    "Usage:\n"
    "  lockstep dashboard [OPTIONS] [RUN...]\n"
    "\n"
    "RUN is a run directory or a name below ./runs. Charts overlay several runs. The\n"
    "dashboard only reads files: it works during and after a run, on every node that\n"
    "can access the run directory, and stopping it (Ctrl-C) does not affect training.\n"
    "It prints its address, which contains an access token, and an ssh command that\n"
    "forwards the port to your own machine.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep dashboard\n"
    "  lockstep dashboard runs/train-a runs/train-b --port 8265\n"
    "  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8265/metrics\n"
    "\n"
    "Exit codes:\n"
    "  0    stopped by Ctrl-C or SIGTERM\n"
    "  64   unknown run or invalid port\n"
    "  69   the port is in use, or lockstep was built without cpp-httplib\n"
    "\n"
    "Files:\n"
    "  RUN/events, RUN/logs, RUN/state.json    input\n";

struct DashboardOptions {
  std::vector<std::string> runs;
  std::string address = "127.0.0.1";
  std::string port = "0";
  bool is_waiting = false;
};

int parse_port(const std::string& text) {
  constexpr int64_t kMaximum = 65535;
  const auto number = find_integer(text);
  if (!number || *number < 0 || *number > kMaximum) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --port", text))
        .fact("expected", "a number from 1 to 65535, or 0 for any free port")
        .hint("--port 8265");
  }
  return static_cast<int>(*number);
}

// With --wait, the directory need not exist yet: lockstep run starts the dashboard before the run.
monitor::ShownRun shown_run(const std::string& word, bool is_waiting) {
  const fs::path here = fs::current_path();
  const Run run = is_waiting ? coming_run(word, here) : run_named(word, here);
  return {.directory = run.directory, .name = run.name};
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

DashboardAddress address_of(const monitor::HttpServer& server,
                            const std::string& address,
                            const std::string& token,
                            const os::Environment& environment) {
  return {.address = address,
          .port = server.port(),
          .token = token,
          .host = os::host_name(),
          .user = os::find_variable(environment, "USER").value_or(""),
          .submit_host = os::find_variable(environment, "SLURM_SUBMIT_HOST").value_or("")};
}

// Order of destruction: the server first, then the site, then the token and the signals. Requests
// that are running refer to the site, and threads must not see the signals unblocked.
int serve(const DashboardOptions& options) {
  if (!monitor::has_http_server()) {
    throw Error(ExitCode::Unavailable, "cannot serve a dashboard: built without cpp-httplib")
        .fact("missing", "httplib.h, when lockstep was built")
        .hint("install libcpp-httplib-dev and rebuild; lockstep status and logs work without it");
  }
  const int port = parse_port(options.port);
  std::vector<monitor::ShownRun> runs;
  for (const std::string& word : options.runs) {
    runs.push_back(shown_run(word, options.is_waiting));
  }
  if (runs.empty()) {
    runs.push_back(shown_run("", false));
  }

  // Before the first thread: threads inherit the signal mask.
  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  const monitor::Access access;
  monitor::Site site(std::move(runs));
  const monitor::HttpServer server(site, access, {.address = options.address, .port = port});
  fmt::print("{}",
             describe(address_of(server, options.address, access.token(), os::environment())));
  os::finish_output();
  std::array<os::Watch, 1> watches = {os::Watch{.fd = signals.fd()}};
  os::wait_for(watches, std::nullopt);
  while (signals.find_pending()) {  // consume it, or it would kill this process when unblocked
  }
  return 0;
}

}  // namespace

// A compute node usually accepts ssh only from the login node, so the command jumps over the host
// from which the job was submitted (-J).
std::string describe(const DashboardAddress& dashboard) {
  const bool is_here = is_loopback(dashboard.address);
  const std::string seen =
      dashboard.address == "0.0.0.0" || dashboard.address == "::" ? dashboard.host
      : dashboard.address.find(':') != std::string::npos ? fmt::format("[{}]", dashboard.address)
                                                         : dashboard.address;
  std::string text =
      fmt::format("dashboard: http://{}:{}/?token={}\n", seen, dashboard.port, dashboard.token);
  if (!is_here) {
    return text +
           fmt::format(
               "  warning: {} accepts connections from other machines without encryption, so the\n"
               "  token can be read on the network; prefer an ssh tunnel, without --bind\n",
               dashboard.address);
  }
  const bool has_jump = !dashboard.submit_host.empty() && dashboard.submit_host != dashboard.host;
  text += fmt::format("  from your own machine, first: ssh -N -L {0}:{1}:{0} {2}{3}{4}\n",
                      dashboard.port,
                      dashboard.address,
                      has_jump ? fmt::format("-J {} ", dashboard.submit_host) : "",
                      dashboard.user.empty() ? "" : dashboard.user + "@",
                      dashboard.host);
  return text;
}

void add_dashboard(CLI::App& app, Call& call) {
  auto options = std::make_shared<DashboardOptions>();
  CLI::App* dashboard = app.add_subcommand("dashboard", kDescription);
  dashboard->footer(kFooter);
  dashboard->add_option("RUN", options->runs, "Runs to show [newest run below ./runs]");
  dashboard->add_option("--port", options->port, "Port to listen on; 0 for any free port")
      ->type_name("NUMBER")
      ->default_str("0");
  dashboard
      ->add_option("--bind", options->address, "Address to listen on; 0.0.0.0 for all networks")
      ->type_name("ADDRESS")
      ->default_str("127.0.0.1");
  dashboard->add_flag("--wait", options->is_waiting, "Also accept a RUN that has not started yet");
  dashboard->callback([options, &call] { call.exit_code = serve(*options); });
}

}  // namespace lockstep::cli
