// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/peer.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "common/os/command.h"
#include "common/os/host.h"
#include "lockstep/error.h"

namespace lockstep::bench {
namespace {

constexpr const char* kWithout = "drop --peer";

// The last output line; for Python programs it contains the reason of a failure.
std::string last_line(const std::string& text) {
  const std::vector<std::string> lines = split(trim(text), '\n');
  return lines.empty() ? "nothing" : lines.back();
}

// find_spec() does not import torch, which would take seconds.
bool has_torch(const std::filesystem::path& python) {
  return os::run_command({python.string(),
                          "-c",
                          "import importlib.util, sys; "
                          "sys.exit(importlib.util.find_spec('torch') is None)"})
      .status.is_success();
}

}  // namespace

// The order of tools/find_python.sh: an environment of the user comes first, then the packages of
// the distribution.
std::string find_python(const std::string& requested) {
  if (!requested.empty()) {
    return requested;
  }
  const std::string usual = "python3";
  for (const std::string& candidate : {usual, std::string("/usr/bin/python3")}) {
    const auto program = os::find_program(candidate, os::environment());
    if (program && has_torch(*program)) {
      return candidate;
    }
  }
  return usual;
}

std::filesystem::path find_peer(const std::string& name, const std::string& requested_python) {
  const std::string python = find_python(requested_python);
  const std::filesystem::path script =
      std::filesystem::path(os::own_executable()).parent_path().parent_path() /
      "share/lockstep/peers" / (name + ".py");
  if (!os::is_readable(script)) {
    throw Error(ExitCode::Unavailable, "cannot compare with Python: the peer is not installed")
        .fact("missing", script.string())
        .hint(kWithout);
  }
  const auto program = os::find_program(python, os::environment());
  if (!program) {
    throw Error(ExitCode::Unavailable, "cannot compare with Python: it is not installed")
        .fact("missing", python, "PATH")
        .hint(fmt::format("--python PROGRAM, or {}", kWithout));
  }
  if (!has_torch(*program)) {
    throw Error(ExitCode::Unavailable, "cannot compare with Python: it has no torch")
        .fact("python", program->string())
        .hint(fmt::format("{} -m pip install torch, --python PROGRAM, or {}", python, kWithout));
  }
  return script;
}

// The output is captured and not shown; after a failure the last line is part of the error.
std::string run_to_end(const std::vector<std::string>& command) {
  // Python prints exceptions to stderr, which therefore has precedence over stdout in the error.
  const os::CommandResult result = os::run_command(command);
  if (!result.status.is_success()) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot measure: {} failed", command.front()))
        .fact("command", join(command, " "))
        .fact("exit code", std::to_string(result.status.shell_code()))
        .fact("last line", last_line(trim(result.errors).empty() ? result.output : result.errors))
        .hint("run the command alone; gpt2 keeps its files with --save-weights and --save-tokens");
  }
  return result.output;
}

// Only the last line counts: libraries print notices before it.
// The parse must not throw: its exception would be reported as a bug without the line.
nlohmann::json run_peer(const std::string& requested_python,
                        const std::filesystem::path& script,
                        const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {find_python(requested_python), script.string()};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const std::string line = last_line(run_to_end(command));
  nlohmann::json figures = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!figures.is_object()) {
    throw Error(ExitCode::Bug, "cannot parse the output of the Python peer")
        .fact("last line", line)
        .fact("command", join(command, " "));
  }
  return figures;
}

std::optional<double> find_figure(const nlohmann::json& figures, const std::string& key) {
  const auto found = figures.find(key);
  return found != figures.end() && found->is_number() ? std::optional(found->get<double>())
                                                      : std::nullopt;
}

}  // namespace lockstep::bench
