// SPDX-License-Identifier: Apache-2.0
#include "slurm/check_program.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <string_view>

#include "slurm/shell_command.h"
#include "slurm/variables.h"

namespace lockstep::slurm {
namespace {

// The shell would take what follows for a command of its own, on the first node alone.
void refuse_several(const JobSettings& settings, const ShellCommand& command) {
  if (command.has_open_quote) {
    throw settings.refuse("training_cmd", "cannot understand training_cmd: a quote is not closed")
        .hint(
            "close it; where the value has ' #', which begins a comment in YAML, quote all of it");
  }
  if (!command.separator.empty()) {
    const bool is_break = command.separator == "a line break";
    throw settings.refuse("training_cmd", "cannot take more than one command as training_cmd")
        .fact("reason", fmt::format("{} begins another", command.separator))
        .hint(is_break ? "training_cmd: > joins the lines below it"
                       : "pre_exec_command and post_exec_command, or exec_command for all of it");
  }
}

// NAME=VALUE in front of a program is the shell's, and no shell starts the workers.
void refuse_variable(const JobSettings& settings, const std::string& word) {
  const size_t equals = word.find('=');
  if (equals == std::string::npos || !is_variable_name(word.substr(0, equals))) {
    return;
  }
  throw settings.refuse("training_cmd", fmt::format("cannot start '{}': it is no program", word))
      .hint(fmt::format("env: {{{}: {}}}", word.substr(0, equals), word.substr(equals + 1)));
}

// One that starts workers itself would be started as every worker.
void refuse_launcher(const JobSettings& settings, const Job& job, const std::string& word) {
  static constexpr auto kOnNodes = std::to_array<std::string_view>(
      {"torchrun", "deepspeed", "accelerate", "horovodrun", "mpirun", "mpiexec", "srun"});
  const std::string name = word.substr(word.rfind('/') + 1);
  const bool is_one = std::find(kOnNodes.begin(), kOnNodes.end(), name) != kOnNodes.end();
  if (!is_one || job.workers_per_node == 1) {
    return;
  }
  throw settings
      .refuse("training_cmd", fmt::format("cannot start {} as a worker: it starts workers", name))
      .fact("workers",
            fmt::format("{} on each node, each of which would be {}", job.workers_per_node, name))
      .hint("training_cmd: the training program alone; launcher says who starts it")
      .hint("exec_command: what shall be run as it is");
}

// A signal for the workers would go to the end of the pipe.
void refuse_pipe(const JobSettings& settings, const Job& job) {
  if (job.signal_seconds > 0 || job.launcher == Launcher::Loop) {
    throw settings.refuse("training_cmd", "cannot signal workers whose output goes into a pipe")
        .hint("no pipe: std_out keeps what they say");
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
