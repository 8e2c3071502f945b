// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "launcher/plan/request.h"

namespace lockstep::cli {

// State that subcommands share with the parser of the command line.
struct Call {
  std::vector<std::string> program;  // PROGRAM and ARGS of `lockstep run`
  std::string command_time;          // start of this process, in seconds since the epoch
  int exit_code = 0;                 // set by the subcommand
};

// Each function declares one subcommand and its callback, which CLI11 calls after parsing. `call`
// must outlive the parsing of `app`.
void add_agent(CLI::App& app, Call& call);
void add_run(CLI::App& app, Call& call);
void add_generate_slurm(CLI::App& app, Call& call);
void add_status(CLI::App& app, Call& call);
void add_watch(CLI::App& app, Call& call);
void add_export(CLI::App& app, Call& call);
void add_report(CLI::App& app, Call& call);
void add_scaling(CLI::App& app, Call& call);
void add_logs(CLI::App& app, Call& call);
void add_cancel(CLI::App& app, Call& call);
void add_dashboard(CLI::App& app, Call& call);
void add_doctor(CLI::App& app, Call& call);
void add_network(CLI::App& app, Call& call);
void add_data(CLI::App& app, Call& call);
void add_env(CLI::App& app, Call& call);

// Turns `app` itself into `lockstep run` under the name and with the options of another launcher.
void become_run(CLI::App& app, Call& call, plan::Dialect dialect);

}  // namespace lockstep::cli
