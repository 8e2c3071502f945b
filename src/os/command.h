// SPDX-License-Identifier: Apache-2.0
#pragma once

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

struct CommandResult {
  ExitStatus status;
  std::string output;  // stdout
  std::string errors;  // stderr
};

// Runs a program to its end in `directory` (empty: this one), and keeps what it says. Throws an
// Error when the program is not installed.
CommandResult run_command(const std::vector<std::string>& arguments,
                          const std::filesystem::path& directory = {});

}  // namespace lockstep::os
