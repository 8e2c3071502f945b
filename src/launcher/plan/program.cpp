// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/program.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <utility>

#include "common/contract/worker_env.h"
#include "launcher/plan/parse_options.h"
#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

// torch.distributed.launch and deepspeed pass the argument by default, torchrun and horovodrun do
// not. `lockstep run` passes it if the script declares it, so that old scripts run unchanged.
bool passes_local_rank(const Request& request) {
  switch (request.dialect) {
    case Dialect::TorchLaunch:
      return !request.is_use_env;
    case Dialect::Deepspeed:
      return !request.is_no_local_rank;
    case Dialect::Lockstep:
      return request.is_local_rank_passed || (request.is_local_rank_taken && !request.is_use_env);
    default:
      return request.is_local_rank_passed;
  }
}

Sourced<std::string> read_assignment(const std::string& flag, const OptionValue& given) {
  return {given.text.substr(given.text.find('=') + 1), source_of(given, flag)};
}

// Rank variables differ between workers. A value from the user would give all workers the same
// rank, and the run would hang in its first collective.
std::string require_name(const std::string& flag,
                         const OptionValue& given,
                         std::string_view expected) {
  std::string name = given.text.substr(0, given.text.find('='));
  if (name.empty()) {
    throw invalid_value(given, flag, expected).hint(flag + " OMP_PROC_BIND=true");
  }
  const os::Environment ours = contract::to_environment({});
  if (ours.contains(name)) {
    throw Error(ExitCode::Usage, fmt::format("cannot set {}: the launcher sets it", name))
        .fact("requested", said(given, flag), given.source)
        .hint("drop it: each worker has its own value");
  }
  return name;
}

}  // namespace

// program_word is the index of the user's program, behind "python3" and "-m": the local rank
// argument is inserted after it, and messages name it.
void read_program(LaunchPlan& plan, const Request& request, const HostEnvironment& here) {
  if (request.program.empty() || request.program.front().empty()) {
    throw Error(ExitCode::Usage, "no program given")
        .fact("expected", "a program after the options", kCommandLine)
        .hint(fmt::format("{} {} 2 ./train",
                          command_of(request.dialect),
                          request.dialect == Dialect::Horovodrun  ? "-np"
                          : request.dialect == Dialect::Deepspeed ? "--num_gpus"
                                                                  : "--nproc-per-node"));
  }
  const bool is_script = request.program.front().ends_with(".py") && !request.is_no_python;
  plan.command = request.program;
  if (request.is_module) {
    plan.command.insert(plan.command.begin(), "-m");
  }
  if (is_script || request.is_module || request.is_run_path) {
    // As in torchrun, PYTHON_EXEC overrides the active interpreter.
    const auto python = os::find_variable(here.environment, "PYTHON_EXEC");
    plan.command.insert(plan.command.begin(), python && !python->empty() ? *python : "python3");
  }
  plan.program_word = static_cast<int>(plan.command.size() - request.program.size());
  plan.passes_local_rank = passes_local_rank(request);
  plan.local_rank_option = request.is_local_rank_dashed ? "--local-rank" : "--local_rank";
}

bool runs_python(const LaunchPlan& plan) {
  return plan.program_word > 0 ||
         std::filesystem::path(plan.command.front()).filename().string().starts_with("python");
}

Variables read_variables(const Request& request, const HostEnvironment& here) {
  Variables variables;
  for (const OptionValue& given : request.env) {
    if (given.text.find('=') == std::string::npos) {
      throw invalid_value(given, "--env", "NAME=VALUE").hint("--env OMP_PROC_BIND=true");
    }
    variables.insert_or_assign(require_name("--env", given, "NAME=VALUE"),
                               read_assignment("--env", given));
  }
  for (const OptionValue& given : request.pass) {
    const std::string name = require_name("-x", given, "NAME or NAME=VALUE");
    if (given.text.find('=') != std::string::npos) {
      variables.insert_or_assign(name, read_assignment("-x", given));
      continue;
    }
    const auto value = os::find_variable(here.environment, name);
    if (!value) {
      throw Error(ExitCode::Usage, fmt::format("cannot pass {}: it is not set", name))
          .fact("requested", said(given, "-x"), given.source)
          .hint(fmt::format("-x {}=VALUE, or export {} first", name, name));
    }
    variables.insert_or_assign(name, Sourced<std::string>{*value, source_of(given, "-x")});
  }
  return variables;
}

void add_where_unset(Variables& variables,
                     const os::Environment& environment,
                     std::string_view name,
                     Sourced<std::string> value) {
  if (const auto set = os::find_variable(environment, name)) {
    value = {*set, {ValueSource::Variable, std::string(name)}};
  }
  variables.emplace(name, std::move(value));
}

}  // namespace lockstep::plan
