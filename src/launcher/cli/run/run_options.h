// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "launcher/plan/request.h"

namespace lockstep::cli {

// The options of `lockstep run`: the request for a plan, and the use of the plan.
struct RunOptions {
  plan::Request request;
  plan::Option simulate;  // NODESxWORKERS
  bool is_dry = false;
  bool is_json = false;
  bool is_verbose = false;
  bool has_dashboard = false;
  std::optional<std::string> tensorboard;  // directory; empty: in the run directory
};

// Declares the options of `lockstep run` on `app`, with the short names of the dialect in
// `options`. `options` must outlive the parsing.
void add_run_options(CLI::App& app, RunOptions& options);

}  // namespace lockstep::cli
