// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/requeue.h"

#include <array>
#include <csignal>
#include <fmt/format.h>
#include <string>
#include <utility>

#include "launcher/plan/parse_options.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

constexpr std::string_view kHint =
    "sbatch --requeue --open-mode=append --signal=B:USR1@120 with a script that ends in 'exec "
    "lockstep run --requeue PROGRAM'";

// Why this process is not a batch job; empty if it is one. --signal=B: signals the batch script
// only, and `exec lockstep run` makes this process the batch script. In a task or an interactive
// shell the warning would never arrive, and the run would be killed at the time limit without a
// checkpoint.
std::string find_objection(const HostEnvironment& here, LaunchMode mode) {
  if (!here.job) {
    return here.is_nested ? "a worker of another run" : "no Slurm job";
  }
  if (here.step || mode == LaunchMode::Peers || mode == LaunchMode::Task) {
    return fmt::format("an srun task of job {}", here.job->id);
  }
  // Only slurmstepd sets SLURM_TASK_PID. An interactive shell of salloc (Slurm's step -6) has it,
  // too.
  const auto step = os::find_variable(here.environment, "SLURM_STEP_ID").value_or("");
  if (!here.environment.contains("SLURM_TASK_PID") || step == "4294967290" || step == "-6") {
    return fmt::format("job {}, but not its batch script", here.job->id);
  }
  return "";
}

void require_no_details(const Request& request) {
  const std::array<std::pair<const Option*, std::string_view>, 3> details = {
      {{&request.requeue_signal, "--requeue-signal"},
       {&request.max_requeues, "--max-requeues"},
       {&request.progress_file, "--progress-file"}}};
  for (const auto& [option, flag] : details) {
    if (*option) {
      throw Error(ExitCode::Usage, fmt::format("cannot use {} without --requeue", flag))
          .fact("requested", said(**option, flag), (*option)->source)
          .hint(fmt::format("--requeue {} {}", flag, (*option)->text));
    }
  }
}

Sourced<int> read_signal(const Option& option) {
  constexpr std::string_view kFlag = "--requeue-signal";
  if (!option) {
    return from_default(SIGUSR1);
  }
  std::string_view name = option->text;
  name.remove_prefix(name.starts_with("SIG") ? 3 : 0);
  if (name != "USR1" && name != "USR2") {
    throw invalid_value(*option, kFlag, "USR1 or USR2, as in #SBATCH --signal=B:USR1@120")
        .hint("--requeue-signal USR1");
  }
  return {name == "USR1" ? SIGUSR1 : SIGUSR2, source_of(*option, kFlag)};
}

// Names a task of an array by both numbers: its own job id can be that of the whole array.
std::string name_of_job(const HostEnvironment& here) {
  const auto array = os::find_variable(here.environment, "SLURM_ARRAY_JOB_ID");
  const auto task = os::find_variable(here.environment, "SLURM_ARRAY_TASK_ID");
  return array && task ? *array + "_" + *task : here.job->id;
}

}  // namespace

std::optional<RequeueRules> read_requeue(const Request& request,
                                         const HostEnvironment& here,
                                         LaunchMode mode) {
  if (request.is_no_requeue) {
    return std::nullopt;
  }
  if (!request.is_requeue) {
    require_no_details(request);
    return std::nullopt;
  }
  if (const std::string objection = find_objection(here, mode); !objection.empty()) {
    throw Error(ExitCode::Usage, "cannot requeue the job: this process is not its batch script")
        .fact("requested", "--requeue", kCommandLine)
        .fact("found", objection, "environment")
        .hint(kHint);
  }
  constexpr int kMaximum = 1'000'000;
  return RequeueRules{
      .job = name_of_job(here),
      .signal = read_signal(request.requeue_signal),
      .maximum = request.max_requeues ? read_number(*request.max_requeues,
                                                    {.flag = "--max-requeues",
                                                     .minimum = 1,
                                                     .maximum = kMaximum,
                                                     .hint = "--max-requeues 20"})
                                      : from_default(0, "no limit"),
      .progress_file =
          request.progress_file
              ? read_path(*request.progress_file, "--progress-file", here.directory).value
              : "",
      .end_time = here.job->end_time};
}

}  // namespace lockstep::plan
