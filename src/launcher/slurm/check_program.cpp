// SPDX-License-Identifier: Apache-2.0
//
// training_cmd is placed behind a launcher: "srun ... bash -c '...; exec "$@"' worker PROGRAM
// ARGS". It is shell text in the script, so quotes and variables work, but only its first command
// would run under the launcher. Everything that would silently run elsewhere is rejected here.
#include "launcher/slurm/check_program.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "launcher/slurm/shell_command.h"
#include "launcher/slurm/variables.h"

namespace lockstep::slurm {
namespace {

// The batch script would run the second command itself, once, on the first node.
void refuse_several(const JobSettings& settings, const ShellCommand& command) {
  if (command.has_open_quote) {
    throw settings.refuse("training_cmd", "training_cmd has an unclosed quote")
        .hint("close the quote; if the value contains ' #' (a comment in YAML), quote all of it");
  }
  if (!command.separator.empty()) {
    const bool is_break = command.separator == "a line break";
    throw settings.refuse("training_cmd", "training_cmd must be a single command")
        .fact("reason", fmt::format("{} starts another command", command.separator))
        .hint(is_break ? "training_cmd: >, which joins the following lines"
                       : "use pre_exec_command and post_exec_command, or only exec_command");
  }
}

// NAME=VALUE before a program is shell syntax, but the workers are started without a shell.
void refuse_variable(const JobSettings& settings, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || !is_variable_name(word.substr(0, equals))) {
    return;
  }
  throw settings.refuse("training_cmd", fmt::format("cannot start '{}': not a program", word))
      .hint(fmt::format("env: {{{}: {}}}", word.substr(0, equals), word.substr(equals + 1)));
}

// A launcher in training_cmd would be started once per worker. With one worker per node, the
// launcher in training_cmd starts the local workers itself, which is a common and correct setup.
void refuse_launcher(const JobSettings& settings, const Job& job, const std::string& word) {
  static constexpr auto kOnNodes = std::to_array<std::string_view>(
      {"torchrun", "deepspeed", "accelerate", "horovodrun", "mpirun", "mpiexec", "srun"});
  const std::string name = word.substr(word.rfind('/') + 1);
  const bool is_one = std::find(kOnNodes.begin(), kOnNodes.end(), name) != kOnNodes.end();
  if (!is_one || job.workers_per_node == 1) {
    return;
  }
  throw settings
      .refuse("training_cmd", fmt::format("cannot start {} as a worker: it is a launcher", name))
      .fact("workers", fmt::format("{} per node, each would start {}", job.workers_per_node, name))
      .hint("training_cmd: only the training program; launcher: selects the launcher")
      .hint("exec_command: a command that runs unchanged");
}

// The signal would reach the last process of the pipe instead of the workers.
void refuse_pipe(const JobSettings& settings, const Job& job) {
  if (job.signal_seconds > 0 || job.launcher == Launcher::Loop) {
    throw settings.refuse("training_cmd", "cannot signal workers behind a pipe")
        .hint("remove the pipe: std_out stores the output");
  }
}

}  // namespace

void check_program(const JobSettings& settings, const Job& job) {
  if (!job.exec_command.empty()) {
    return;
  }
  const ShellCommand command = look_at_command(job.program);
  refuse_several(settings, command);
  refuse_variable(settings, command.first_word);
  refuse_launcher(settings, job, command.first_word);
  if (command.has_pipe) {
    refuse_pipe(settings, job);
  }
}

}  // namespace lockstep::slurm
