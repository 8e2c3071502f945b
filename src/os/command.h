// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/environment.h"
#include "os/process.h"

// Other programs as functions: found, run to their end, and heard.
namespace lockstep::os {

// A program as a shell finds it: a name with a slash is a path, another is looked up in PATH.
// Only what may be executed is found.
std::optional<std::filesystem::path> find_program(std::string_view name,
                                                  const Environment& environment);

// Whether this user may read, and execute, the file.
bool is_readable(const std::filesystem::path& path);
bool is_executable_file(const std::filesystem::path& path);

// How a command is run, where that is not as this process runs itself.
struct CommandOptions {
  std::filesystem::path directory = {};                   // empty: this one
  std::optional<Environment> environment = std::nullopt;  // absent: this process's
  std::string input = {};                                 // what it reads from stdin
  // When it has not ended by then, it and the processes of its group are killed; absent: never.
  std::optional<std::chrono::milliseconds> time_limit = std::nullopt;
  int stop_fd = -1;  // the same as soon as this is readable
};

struct CommandResult {
  ExitStatus status;
  std::string output;           // stdout
  std::string errors;           // stderr
  bool is_out_of_time = false;  // killed at its time limit
  bool is_stopped = false;      // killed as stop_fd became readable
};

// Runs a program to its end, and keeps what it says. It is looked up in the PATH that it will have.
// With a time limit or a stop_fd it has a process group of its own, so that Ctrl-C is for the
// caller alone. Throws an Error (69) when the program is not installed.
CommandResult run_command(const std::vector<std::string>& arguments,
                          const CommandOptions& options = {});

}  // namespace lockstep::os
