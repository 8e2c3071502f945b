// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "plan/request.h"

namespace lockstep::cli {

// What the subcommands share with the command line as a whole.
struct Call {
  std::vector<std::string> program;  // what follows the options of `lockstep run`
  std::string command_time;          // when the command was typed, in seconds since the epoch
  int exit_code = 0;                 // left by the subcommand
};

// Each declares its subcommand; what it does runs when the line has been read. `call` must outlive
// `app`'s parsing.
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

// Makes `app` itself `lockstep run`, under another launcher's name and with its dialect.
void become_run(CLI::App& app, Call& call, plan::Dialect dialect);

}  // namespace lockstep::cli
