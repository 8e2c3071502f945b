// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "os/environment.h"

namespace lockstep::plan {

// What the user asked for, in the user's own words: make_plan reads them, so that every front end
// refuses the same things with the same sentence. Absent means: not asked.
struct Request {
  std::vector<std::string> program;           // the program and its arguments, untouched
  std::optional<std::string> nproc_per_node;  // a number, cpu, gpu or auto
  std::optional<std::string> master_addr;
  std::optional<std::string> master_port;
  std::optional<std::string> run_dir;
  std::optional<std::string> grace;  // seconds
  std::vector<std::string> env;      // NAME=VALUE
};

// What was found on this machine when the command was typed.
struct Surroundings {
  std::string node = "localhost";
  std::string directory = "/";  // the current one
  int cores = 1;
  int gpus = 0;
  int free_port = 0;
  std::optional<int> terminal_columns;
  std::string timestamp;     // 20240131-093000
  std::string short_id;      // what makes two runs of one second differ
  std::string command_time;  // seconds since the epoch
  os::Environment environment;
};

}  // namespace lockstep::plan
