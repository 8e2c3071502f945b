// SPDX-License-Identifier: Apache-2.0
#include "common/os/command.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <fmt/format.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/os/pipe.h"
#include "lockstep/error.h"

namespace lockstep::os {
namespace {

namespace fs = std::filesystem;

// The capacity of a pipe on Linux: one read can empty it.
constexpr size_t kChunkBytes = size_t{1} << 16;

using Clock = std::chrono::steady_clock;

// The remaining time of a command; nothing: no limit.
std::optional<std::chrono::milliseconds> time_left(const std::optional<Clock::time_point>& end) {
  if (!end) {
    return std::nullopt;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end - Clock::now());
  return std::max(left, std::chrono::milliseconds(0));
}

// Appends the available bytes to `text`; stops watching at the end of the stream.
void read_one(Watch& watch, std::string& text) {
  if (watch.is_ready && read_some(watch.fd, text, kChunkBytes) == ReadResult::End) {
    watch.fd = -1;
  }
}

// Reads both streams at the same time, so that neither can fill up and block the writer, and waits
// for the child to exit. Returns early at the time limit, or when `stop_fd` becomes readable. All
// three must end: the exit alone could leave bytes in the pipes, and the streams can stay open
// after the exit if a grandchild has inherited them. A command that leaves a daemon behind without
// redirecting its output is therefore waited for until the daemon ends, or until the time limit.
void hear_out(const std::array<int, 3>& output_errors_child,
              const CommandOptions& options,
              CommandResult& result) {
  std::array<Watch, 4> watches{};
  for (size_t i = 0; i < output_errors_child.size(); ++i) {
    watches.at(i).fd = output_errors_child.at(i);
  }
  watches[3].fd = options.stop_fd;
  const std::array<std::string*, 2> texts = {&result.output, &result.errors};
  const auto end =
      options.time_limit ? std::optional(Clock::now() + *options.time_limit) : std::nullopt;
  while (watches[0].fd >= 0 || watches[1].fd >= 0 || watches[2].fd >= 0) {
    wait_for(watches, time_left(end));
    for (size_t i = 0; i < texts.size(); ++i) {
      read_one(watches.at(i), *texts.at(i));
    }
    watches[2].fd = watches[2].is_ready ? -1 : watches[2].fd;
    result.is_stopped = watches[3].is_ready;
    result.is_out_of_time = end && Clock::now() >= *end;
    if (result.is_stopped || result.is_out_of_time) {
      return;
    }
  }
}

// Waits for a command that has ended or was killed. The group is killed first, while its leader
// still exists and keeps the number of the group valid. The second signal covers a child that has
// left its group.
ExitStatus end_of(Child& child, bool has_own_group, const CommandResult& result) {
  if (result.is_out_of_time || result.is_stopped) {
    if (has_own_group) {
      child.signal_group(SIGKILL);
    }
    child.signal(SIGKILL);
  }
  return child.wait();
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

CommandResult run_command(const std::vector<std::string>& arguments,
                          const CommandOptions& options) {
  const Environment variables = options.environment ? *options.environment : environment();
  const auto program = find_program(arguments.at(0), variables);
  if (!program) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot find the program '{}'", arguments[0]))
        .fact("searched", find_variable(variables, "PATH").value_or(""), "PATH");
  }
  Pipe output = make_pipe();
  Pipe errors = make_pipe();
  // A file in memory instead of a pipe: the input needs no writer that runs while the child reads,
  // however long it is.
  const Fd input = options.input.empty() ? Fd() : make_memory_file(options.input);
  const bool has_own_group = options.time_limit || options.stop_fd >= 0;
  Child child = start({.executable = program->string(),
                       .arguments = arguments,
                       .environment = variables,
                       .stdin_fd = input.number(),
                       .stdout_fd = output.in.number(),
                       .stderr_fd = errors.in.number(),
                       .inherited = {},
                       .directory = options.directory.string(),
                       .has_own_group = has_own_group,
                       .dies_with_parent = true});
  // Otherwise this process would be a writer itself, and the streams would never end.
  output.in.close();
  errors.in.close();
  CommandResult result;
  hear_out({output.out.number(), errors.out.number(), child.fd()}, options, result);
  result.status = end_of(child, has_own_group, result);
  return result;
}

}  // namespace lockstep::os
