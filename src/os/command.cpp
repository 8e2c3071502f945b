// SPDX-License-Identifier: Apache-2.0
#include "os/command.h"

#include <array>
#include <fmt/format.h>
#include <unistd.h>

#include "base/text.h"
#include "lockstep/error.h"
#include "os/pipe.h"

namespace lockstep::os {
namespace {

namespace fs = std::filesystem;

constexpr size_t kChunkBytes = size_t{1} << 16;

// Reads both to their ends at once, so that neither can fill up and stop the writer.
void read_both(Pipe& output, Pipe& errors, CommandResult& result) {
  std::array<Watch, 2> watches = {Watch{.fd = output.out.number()},
                                  Watch{.fd = errors.out.number()}};
  std::array<std::string*, 2> texts = {&result.output, &result.errors};
  while (watches[0].fd >= 0 || watches[1].fd >= 0) {
    wait_for(watches, std::nullopt);
    for (size_t i = 0; i < watches.size(); ++i) {
      if (watches.at(i).is_ready &&
          read_some(watches.at(i).fd, *texts.at(i), kChunkBytes) == ReadResult::End) {
        watches.at(i).fd = -1;
      }
    }
  }
}

}  // namespace

bool is_readable(const fs::path& path) {
  return ::access(path.c_str(), R_OK) == 0;
}

bool is_executable_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

std::optional<fs::path> find_program(std::string_view name, const Environment& environment) {
  if (name.find('/') != std::string_view::npos) {
    return is_executable_file(name) ? std::optional<fs::path>(name) : std::nullopt;
  }
  const std::string places = find_variable(environment, "PATH").value_or("/usr/bin:/bin");
  for (const std::string& folder : split(places, ':')) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (is_executable_file(candidate)) {
      return candidate;
    }
  }
  return std::nullopt;
}

CommandResult run_command(const std::vector<std::string>& arguments, const fs::path& directory) {
  const Environment here = environment();
  const auto program = find_program(arguments.at(0), here);
  if (!program) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot find the program '{}'", arguments[0]))
        .fact("looked in", find_variable(here, "PATH").value_or(""), "PATH");
  }
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  Child child = start({.executable = program->string(),
                       .arguments = arguments,
                       .environment = here,
                       .stdout_fd = output.in.number(),
                       .stderr_fd = errors.in.number(),
                       .inherited = {},
                       .directory = directory.string(),
                       .dies_with_parent = true});
  output.in.close();
  errors.in.close();
  CommandResult result;
  read_both(output, errors, result);
  result.status = child.wait();
  return result;
}

}  // namespace lockstep::os
