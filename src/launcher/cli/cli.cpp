// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/cli.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/base/clock.h"
#include "common/os/signals.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/arguments.h"
#include "launcher/cli/help.h"
#include "launcher/cli/subcommands.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Launch and supervise distributed training with one command\n"
    "\n"
    "Usage:\n"
    "  lockstep SUBCOMMAND [OPTIONS]";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep run --nproc-per-node 2 build/bin/mnist -s ddp\n"
    "  salloc -N 2 lockstep run train.py\n"
    "  lockstep submit -c slurm_config.yaml --wait\n"
    "  lockstep data fetch mnist\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  64   invalid or conflicting options\n"
    "  69   a required resource is unavailable\n"
    "  70   internal error: a bug in lockstep\n"
    "  74   a file could not be read or written\n"
    "\n"
    "lockstep SUBCOMMAND --help describes each subcommand.\n";

// The launcher that lockstep was called as: a link with its name selects its options. A link named
// torchrun in PATH makes existing scripts use lockstep without a change.
plan::Dialect dialect_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  for (const plan::Dialect dialect : {plan::Dialect::Torchrun,
                                      plan::Dialect::TorchLaunch,
                                      plan::Dialect::Horovodrun,
                                      plan::Dialect::Deepspeed}) {
    if (name == plan::command_of(dialect)) {
      return dialect;
    }
  }
  return plan::Dialect::Lockstep;
}

// The program name at the beginning of every message.
std::string name_of(plan::Dialect dialect) {
  return dialect == plan::Dialect::Lockstep ? "lockstep" : std::string(plan::command_of(dialect));
}

void declare(CLI::App& app, Call& call, plan::Dialect dialect) {
  app.set_version_flag("--version", "lockstep " LOCKSTEP_VERSION, "Show the version")
      ->group("Help");
  if (dialect == plan::Dialect::Lockstep) {
    app.description(kDescription);
    app.footer(kFooter);
    app.require_subcommand(0, 1);
    add_run(app, call);
    add_generate_slurm(app, call);
    add_status(app, call);
    add_watch(app, call);
    add_export(app, call);
    add_report(app, call);
    add_scaling(app, call);
    add_logs(app, call);
    add_cancel(app, call);
    add_dashboard(app, call);
    add_doctor(app, call);
    add_network(app, call);
    add_env(app, call);
    add_data(app, call);
    add_agent(app, call);
  } else {
    become_run(app, call, dialect);
  }
  polish(app);
}

// Callbacks run inside app.parse(). An Error that a subcommand throws passes through CLI11
// unchanged, because CLI11 catches only its own types. CLI11 takes the words from the back of the
// vector, hence the reversal.
int dispatch(const std::vector<std::string>& words,
             const std::string& command_time,
             plan::Dialect dialect) {
  CLI::App app("", name_of(dialect));
  // Newer releases of CLI11 have another heading. Subcommands inherit it.
  app.option_defaults()->group("Options");
  Call call{.program = {}, .command_time = command_time, .exit_code = 0};
  declare(app, call, dialect);

  Arguments arguments = read_arguments(app, words);
  call.program = arguments.program;
  if (arguments.wants_help) {
    fmt::print("{}", help_page(*arguments.chosen));
    return 0;
  }
  if (arguments.is_incomplete) {
    fmt::print(stderr, "{}", help_page(*arguments.chosen));
    return static_cast<int>(ExitCode::Usage);
  }
  try {
    std::vector<std::string> reversed(arguments.words.rbegin(), arguments.words.rend());
    app.parse(reversed);
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
  } catch (const CLI::ParseError& fault) {
    throw Error(ExitCode::Usage, "invalid command line")
        .fact("reason", fault.what())
        .hint(name_of(dialect) + " --help");
  }
  return call.exit_code;
}

std::string now() {
  return fmt::format("{:.3f}", wall_time());
}

}  // namespace

// Order: streams first, because a descriptor 0, 1 or 2 that is closed would be reused by the first
// file that is opened, and messages would be written into it. Signal dispositions next, because
// they are inherited from the caller across exec. finish_output() is inside the try block: a full
// disk or a closed pipe on stdout must change the exit code.
int run(int argc, const char* const* argv) {
  os::open_missing_streams();
  os::restore_signal(SIGCHLD);  // while it is ignored, exit statuses of children are lost
  os::ignore_signal(SIGXFSZ);   // the write then fails with EFBIG, like on a full disk
  const plan::Dialect dialect = dialect_of(argc > 0 ? argv[0] : "lockstep");
  try {
    const int code =
        dispatch(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc), now(), dialect);
    os::finish_output();
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "{}: error: {}\n", name_of(dialect), error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& fault) {
    if (const auto code = os::report_lost_output(name_of(dialect), fault)) {
      return *code;
    }
    fmt::print(stderr, "{}: error: a bug in lockstep: {}\n", name_of(dialect), fault.what());
    return static_cast<int>(ExitCode::Bug);
  }
}

}  // namespace lockstep::cli
