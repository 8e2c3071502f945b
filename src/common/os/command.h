// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "common/os/process.h"

// Runs other programs as function calls: finds them, waits for them and captures their output.
namespace lockstep::os {

// Finds a program like a shell: a name with a slash is a path, any other is searched in PATH. Only
// executable files are found.
std::optional<std::filesystem::path> find_program(std::string_view name,
                                                  const Environment& environment);

// Whether this user can read and execute the file.
bool is_readable(const std::filesystem::path& path);
bool is_executable_file(const std::filesystem::path& path);

// Settings of a command that differ from those of this process.
struct CommandOptions {
  std::filesystem::path directory = {};                   // empty: the current one
  std::optional<Environment> environment = std::nullopt;  // absent: that of this process
  std::string input = {};                                 // passed to stdin
  // After this time, the command and its process group are killed; absent: no limit.
  std::optional<std::chrono::milliseconds> time_limit = std::nullopt;
  int stop_fd = -1;  // kills them as soon as this descriptor is readable
};

struct CommandResult {
  ExitStatus status;
  std::string output;           // stdout
  std::string errors;           // stderr
  bool is_out_of_time = false;  // killed at its time limit
  bool is_stopped = false;      // killed because stop_fd became readable
};

// Runs a program to its end and captures its output. The program is searched in its own PATH. With
// a time limit or a stop_fd it has its own process group, so that Ctrl-C reaches only the caller.
// Throws an Error (69) if the program is not installed.
CommandResult run_command(const std::vector<std::string>& arguments,
                          const CommandOptions& options = {});

}  // namespace lockstep::os
