// SPDX-License-Identifier: Apache-2.0
#include "cli/dashboard.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/text.h"
#include "cli/runs.h"
#include "cli/subcommands.h"
#include "lockstep/error.h"
#include "monitor/access.h"
#include "monitor/http_server.h"
#include "monitor/site.h"
#include "os/host.h"
#include "os/pipe.h"
#include "os/signals.h"
#include "os/standard_streams.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Show runs in a browser, live: curves, ranks, stragglers, logs\n"
    "\n"
    "Usage:\n"
    "  lockstep dashboard [OPTIONS] [RUN...]\n"
    "\n"
    "RUN is a run directory, or a name below ./runs; without it, the newest one.\n"
    "Several are laid over each other. Only reads files, so it works beside a run,\n"
    "after it, and on every node that sees the directory; ending it (Ctrl-C) does\n"
    "not touch training. Prints the address with a token, without which nothing is\n"
    "shown, and the ssh command that brings it to your own machine.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep dashboard\n"
    "  lockstep dashboard runs/train-a runs/train-b --port 8265\n"
    "  curl -H \"Authorization: Bearer $TOKEN\" http://127.0.0.1:8265/metrics\n"
    "\n"
    "Exit codes:\n"
    "  0    it was ended by Ctrl-C or SIGTERM\n"
    "  64   there is no such run, or no such port\n"
    "  69   the port is taken, or lockstep was built without cpp-httplib\n"
    "\n"
    "Files:\n"
    "  RUN/events, RUN/logs, RUN/state.json    all that it reads\n";

struct Words {
  std::vector<std::string> runs;
  std::string address = "127.0.0.1";
  std::string port = "0";
  bool is_waiting = false;
};

int parse_port(const std::string& text) {
  constexpr int64_t kMost = 65535;
  const auto number = find_integer(text);
  if (!number || *number < 0 || *number > kMost) {
    throw Error(ExitCode::Usage, fmt::format("cannot understand --port '{}'", text))
        .fact("expected", "a number from 1 to 65535, or 0 for any that is free")
        .hint("--port 8265");
  }
  return static_cast<int>(*number);
}

monitor::ShownRun shown_run(const std::string& word, bool is_waiting) {
  const fs::path here = fs::current_path();
  const Run run = is_waiting ? coming_run(word, here) : run_named(word, here);
  return {.directory = run.directory, .name = run.name};
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

DashboardPlace place_of(const monitor::HttpServer& server,
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

int serve(const Words& words) {
  if (!monitor::has_http_server()) {
    throw Error(ExitCode::Unavailable, "cannot serve a dashboard: built without cpp-httplib")
        .fact("looked for", "httplib.h, when lockstep was built")
        .hint("install libcpp-httplib-dev and build again; lockstep status and logs need nothing");
  }
  const int port = parse_port(words.port);
  std::vector<monitor::ShownRun> runs;
  for (const std::string& word : words.runs) {
    runs.push_back(shown_run(word, words.is_waiting));
  }
  if (runs.empty()) {
    runs.push_back(shown_run("", false));
  }

  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP});  // before the first thread
  const monitor::Access access;
  monitor::Site site(std::move(runs));
  const monitor::HttpServer server(site, access, {.address = words.address, .port = port});
  fmt::print("{}", describe(place_of(server, words.address, access.token(), os::environment())));
  os::finish_output();
  std::array<os::Watch, 1> watches = {os::Watch{.fd = signals.fd()}};
  os::wait_for(watches, std::nullopt);
  while (signals.find_pending()) {  // taken here, or it would end this process after all
  }
  return 0;
}

}  // namespace

std::string describe(const DashboardPlace& place) {
  const bool is_here = is_loopback(place.address);
  const std::string seen = place.address == "0.0.0.0" || place.address == "::" ? place.host
                           : place.address.find(':') != std::string::npos
                               ? fmt::format("[{}]", place.address)
                               : place.address;
  std::string text =
      fmt::format("dashboard: http://{}:{}/?token={}\n", seen, place.port, place.token);
  if (!is_here) {
    return text +
           fmt::format(
               "  {} listens for others too, and does not encrypt: whoever reads the network\n"
               "  reads the token; without --bind, and through ssh, nobody does\n",
               place.address);
  }
  const bool has_jump = !place.submit_host.empty() && place.submit_host != place.host;
  text += fmt::format("  from your own machine, first: ssh -N -L {0}:{1}:{0} {2}{3}{4}\n",
                      place.port,
                      place.address,
                      has_jump ? fmt::format("-J {} ", place.submit_host) : "",
                      place.user.empty() ? "" : place.user + "@",
                      place.host);
  return text;
}

void add_dashboard(CLI::App& app, Call& call) {
  auto words = std::make_shared<Words>();
  CLI::App* dashboard = app.add_subcommand("dashboard", kDescription);
  dashboard->footer(kFooter);
  dashboard->add_option("RUN", words->runs, "The runs; the newest below ./runs if left out");
  dashboard->add_option("--port", words->port, "Where to listen; 0: any that is free")
      ->type_name("NUMBER")
      ->default_str("0");
  dashboard->add_option("--bind", words->address, "The address to listen on; 0.0.0.0: every one")
      ->type_name("ADDRESS")
      ->default_str("127.0.0.1");
  dashboard->add_flag("--wait", words->is_waiting, "Show a RUN that has not begun, when it does");
  dashboard->callback([words, &call] { call.exit_code = serve(*words); });
}

}  // namespace lockstep::cli
