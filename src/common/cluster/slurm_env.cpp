// SPDX-License-Identifier: Apache-2.0
//
// Slurm exports a set of variables at three places, and each later one overwrites some of the
// earlier:
//
//   salloc, sbatch    SLURM_JOB_*, SLURM_NTASKS, SLURM_TASKS_PER_NODE       the job
//   batch script      the same, and SLURM_PROCID=0, SLURM_NODEID=0          not a task
//   srun task         SLURM_STEP_*, SLURM_PROCID, SLURM_LOCALID, ...        the step
//
// srun also replaces SLURM_NTASKS and SLURM_TASKS_PER_NODE by the values of the step. A process is
// a task only if it has a regular step number; only then are the numbers of task and node
// meaningful.
#include "common/cluster/slurm_env.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string_view>

#include "common/base/text.h"
#include "common/cluster/hosts.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

// A bound against nonsense, far above the limits of Slurm.
constexpr int kMaxTasks = 1 << 24;
// Larger numbers are Slurm's special steps: batch scripts, interactive shells, the external step.
constexpr int64_t kLastOrdinaryStep = 0xfffffff0;

constexpr std::string_view kJobId = "SLURM_JOB_ID";
constexpr std::string_view kJobNodes = "SLURM_JOB_NODELIST";
constexpr std::string_view kOldJobNodes = "SLURM_NODELIST";
constexpr std::string_view kTasksPerNode = "SLURM_TASKS_PER_NODE";
constexpr std::string_view kCpusPerNode = "SLURM_JOB_CPUS_PER_NODE";
constexpr std::string_view kStepId = "SLURM_STEP_ID";
constexpr std::string_view kStepNodes = "SLURM_STEP_NODELIST";
constexpr std::string_view kStepTasks = "SLURM_STEP_NUM_TASKS";
constexpr std::string_view kStepTasksPerNode = "SLURM_STEP_TASKS_PER_NODE";
constexpr std::string_view kTask = "SLURM_PROCID";
constexpr std::string_view kLocalTask = "SLURM_LOCALID";
constexpr std::string_view kNode = "SLURM_NODEID";

// A variable and its value, for messages.
struct Variable {
  std::string_view name;
  std::string value;
};

[[noreturn]] void refuse(const Variable& variable, std::string_view expected) {
  throw Error(ExitCode::Usage, fmt::format("invalid {}='{}'", variable.name, variable.value))
      .fact("expected", expected)
      .fact("found", fmt::format("'{}'", variable.value), "environment")
      .hint(
          fmt::format("unset {} if it is left over; Slurm sets it if it is needed", variable.name));
}

[[noreturn]] void contradict(const Variable& one, const Variable& other) {
  throw Error(ExitCode::Usage, "cannot determine the Slurm job and step: conflicting variables")
      .fact(one.name, one.value, "environment")
      .fact(other.name, other.value, "environment")
      .hint("unset the one that is left over from another job or step");
}

// The SLURM_* variables. An empty value and "(null)" count as unset. Slurm itself exports "(null)"
// for some missing values, such as SLURM_NODE_ALIASES.
class Variables {
 public:
  explicit Variables(const os::Environment& environment) : environment_(environment) {}

  std::optional<Variable> find(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names) {
      const auto value = os::find_variable(environment_, name);
      if (value && !value->empty() && *value != "(null)") {
        return Variable{name, *value};
      }
    }
    return std::nullopt;
  }

  std::optional<int64_t> find_large(std::initializer_list<std::string_view> names,
                                    int64_t minimum,
                                    int64_t maximum = std::numeric_limits<int64_t>::max()) const {
    const auto variable = find(names);
    if (!variable) {
      return std::nullopt;
    }
    const auto number = find_integer(variable->value);
    if (!number || *number < minimum || *number > maximum) {
      refuse(*variable, fmt::format("a whole number of at least {}", minimum));
    }
    return number;
  }

  std::optional<int> find_number(std::initializer_list<std::string_view> names, int minimum) const {
    const auto number = find_large(names, minimum, kMaxTasks);
    return number ? std::optional(static_cast<int>(*number)) : std::nullopt;
  }

  std::vector<int> find_counts(std::string_view name) const {
    const auto variable = find({name});
    return variable ? expand_counts(variable->value, variable->name) : std::vector<int>();
  }

  // For variables that every step has.
  Variable require(std::initializer_list<std::string_view> names) const {
    if (auto variable = find(names)) {
      return *std::move(variable);
    }
    throw Error(ExitCode::Usage, "incomplete variables of a Slurm step")
        .fact("found", kStepId, "environment")
        .fact("missing", *names.begin(), "environment")
        .hint(fmt::format("start the program with srun, which sets both, or unset {}", kStepId));
  }

  int require_number(std::string_view name, int minimum) const {
    require({name});
    return *find_number({name}, minimum);
  }

 private:
  const os::Environment& environment_;
};

// "2", "fake:2", "a100:2,h100:1", "a100" (counts as one): the total. Slurm writes GRES counts in
// the syntax of --gpus: the number follows the last colon.
int count_gpus(const Variable& variable) {
  int64_t sum = 0;
  for (const std::string& part : split(variable.value, ',')) {
    const std::string count = part.substr(part.rfind(':') + 1);
    const bool is_type = !count.empty() && count.find_first_not_of("0123456789-") == 0;
    const auto number = is_type ? std::optional<int64_t>(1) : find_integer(count);
    if (!number || *number < 0 || *number > kMaxTasks) {
      refuse(variable, "COUNT, TYPE:COUNT or several, separated by commas");
    }
    sum += *number;
  }
  return static_cast<int>(std::min<int64_t>(sum, kMaxTasks));
}

// The resources of one task: "cpu=4,gres/gpu=1", "gres/gpu:a100=1", "gres/gpu:1".
std::optional<int> find_per_task(const Variable& variable, std::string_view resource) {
  for (const std::string& part : split(variable.value, ',')) {
    if (!part.starts_with(resource)) {
      continue;
    }
    const std::string rest = part.substr(resource.size());
    const size_t separator = rest.find_last_of("=:");
    const auto number =
        separator == std::string::npos ? std::nullopt : find_integer(rest.substr(separator + 1));
    if (!number || *number < 0 || *number > kMaxTasks) {
      refuse(variable, fmt::format("{}=COUNT", resource));
    }
    return static_cast<int>(*number);
  }
  return std::nullopt;
}

std::optional<int> find_gpus_per_task(const Variables& variables) {
  if (const auto variable = variables.find({"SLURM_GPUS_PER_TASK"})) {
    return count_gpus(*variable);
  }
  if (const auto variable = variables.find({"SLURM_TRES_PER_TASK"})) {
    return find_per_task(*variable, "gres/gpu");
  }
  return std::nullopt;
}

std::optional<int> find_cpus_per_task(const Variables& variables) {
  if (const auto cpus = variables.find_number({"SLURM_CPUS_PER_TASK"}, 1)) {
    return cpus;
  }
  if (const auto variable = variables.find({"SLURM_TRES_PER_TASK"})) {
    return find_per_task(*variable, "cpu");
  }
  return std::nullopt;
}

// Prefers the GPUs granted on this node to the requested number, which can be left over from
// another job. --gpus is a total: only Slurm knows how it is distributed over the nodes.
std::optional<int> find_gpus_per_node(const Variables& variables, const SlurmJob& job) {
  if (const auto granted = variables.find_number({"SLURM_GPUS_ON_NODE"}, 0)) {
    return granted;
  }
  if (const auto asked = variables.find({"SLURM_GPUS_PER_NODE"})) {
    return count_gpus(*asked);
  }
  if (const auto devices = variables.find({"SLURM_JOB_GPUS"})) {
    const auto numbers = expand_hostlist(fmt::format("[{}]", devices->value), devices->name);
    return static_cast<int>(numbers.size());
  }
  const auto per_task = find_gpus_per_task(variables);
  const std::vector<int>& tasks = job.tasks_per_node;
  if (per_task && !tasks.empty() &&
      std::adjacent_find(tasks.begin(), tasks.end(), std::not_equal_to<>()) == tasks.end()) {
    return *per_task * tasks.front();
  }
  const auto sum = variables.find({"SLURM_GPUS"});
  return sum && job.nodes.size() == 1 ? std::optional(count_gpus(*sum)) : std::nullopt;
}

std::optional<std::string> find_step_id(const Variables& variables) {
  const auto variable = variables.find({kStepId, "SLURM_STEPID"});
  if (!variable) {
    return std::nullopt;
  }
  const auto number = find_integer(variable->value);
  if (!number) {
    refuse(*variable, "a whole number");
  }
  return *number >= 0 && *number < kLastOrdinaryStep ? std::optional(variable->value)
                                                     : std::nullopt;
}

void require_below(std::string_view name, int value, std::string_view bound_name, size_t bound) {
  if (static_cast<size_t>(value) >= bound) {
    contradict({name, std::to_string(value)}, {bound_name, std::to_string(bound)});
  }
}

// A login shell inside an old allocation can have variables of two jobs. Comparing counts with
// lists detects most of these cases; using them would start workers on wrong nodes.
void require_same_count(const Variables& variables, std::string_view name, const Variable& nodes) {
  const auto count = variables.find_number({name}, 1);
  if (count && static_cast<size_t>(*count) != expand_hostlist(nodes.value).size()) {
    contradict({name, std::to_string(*count)}, nodes);
  }
}

// Valid outside a step only: inside one, srun has replaced some of them by those of the step.
void read_tasks_of_job(const Variables& variables, const Variable& nodes, SlurmJob& job) {
  require_same_count(variables, "SLURM_JOB_NUM_NODES", nodes);
  job.tasks_per_node = variables.find_counts(kTasksPerNode);
  job.asked_tasks_per_node = variables.find_number({"SLURM_NTASKS_PER_NODE"}, 1);
  job.asked_tasks = variables.find_number({"SLURM_NTASKS", "SLURM_NPROCS"}, 1);
  if (!job.tasks_per_node.empty() && job.tasks_per_node.size() != job.nodes.size()) {
    contradict(variables.require({kTasksPerNode}), nodes);
  }
}

// The nodes of the job. mpirun of Open MPI 6 starts its daemons with an srun whose environment
// lacks the variables of the job, and this srun exports the nodes of its step as those of the job.
// The older SLURM_NODELIST and SLURM_JOB_CPUS_PER_NODE still describe the job there; two
// variables that agree with each other win over one.
std::optional<Variable> find_job_nodes(const Variables& variables) {
  auto nodes = variables.find({kJobNodes, kOldJobNodes});
  const auto old = variables.find({kOldJobNodes});
  if (!nodes || !old || !find_step_id(variables)) {
    return nodes;
  }
  const size_t count = variables.find_counts(kCpusPerNode).size();
  const bool is_step_only = count != expand_hostlist(nodes->value, nodes->name).size() &&
                            count == expand_hostlist(old->value, old->name).size();
  return is_step_only ? old : nodes;
}

// Every value is checked against another one before it is used as an index.
void check_step(const Variables& variables, const SlurmStep& step, const Variable& nodes) {
  require_same_count(variables, "SLURM_STEP_NUM_NODES", nodes);
  require_below(kTask, step.task, kStepTasks, static_cast<size_t>(step.tasks));
  require_below(kNode, step.node, "nodes in SLURM_STEP_NODELIST", step.nodes.size());
  const Variable counts = variables.require({kStepTasksPerNode});
  if (step.tasks_per_node.size() != step.nodes.size()) {
    contradict(counts, nodes);
  }
  if (std::accumulate(step.tasks_per_node.begin(), step.tasks_per_node.end(), int64_t{0}) !=
      step.tasks) {
    contradict(counts, {kStepTasks, std::to_string(step.tasks)});
  }
  const int local_tasks = step.tasks_per_node[static_cast<size_t>(step.node)];
  if (step.local_task >= local_tasks) {
    contradict({kLocalTask, std::to_string(step.local_task)}, counts);
  }
  const auto machine = variables.find({"SLURMD_NODENAME"});
  if (machine &&
      std::find(step.nodes.begin(), step.nodes.end(), machine->value) == step.nodes.end()) {
    contradict(*machine, nodes);
  }
}

}  // namespace

std::optional<SlurmJob> find_slurm_job(const os::Environment& environment) {
  const Variables variables(environment);
  const auto id = variables.find({kJobId, "SLURM_JOBID"});
  const auto nodes = find_job_nodes(variables);
  if (!id || !nodes) {
    return std::nullopt;
  }
  SlurmJob job;
  job.id = id->value;
  job.nodes = expand_hostlist(nodes->value, nodes->name);
  if (!find_step_id(variables)) {
    read_tasks_of_job(variables, *nodes, job);
  }
  job.cpus_per_node = variables.find_counts(kCpusPerNode);
  if (!job.cpus_per_node.empty() && job.cpus_per_node.size() != job.nodes.size()) {
    contradict(variables.require({kCpusPerNode}), *nodes);
  }
  job.cpus_per_task = find_cpus_per_task(variables);
  job.gpus_per_node = find_gpus_per_node(variables, job);
  job.restart_count = variables.find_number({"SLURM_RESTART_COUNT"}, 0);
  job.end_time = variables.find_large({"SLURM_JOB_END_TIME"}, 0);
  return job;
}

std::optional<SlurmStep> find_slurm_step(const os::Environment& environment) {
  const Variables variables(environment);
  const auto id = find_step_id(variables);
  if (!id) {
    return std::nullopt;
  }
  const Variable nodes = variables.require({kStepNodes});
  SlurmStep step;
  step.job_id = variables.require({kJobId, "SLURM_JOBID"}).value;
  step.id = *id;
  step.nodes = expand_hostlist(nodes.value, nodes.name);
  step.tasks_per_node =
      expand_counts(variables.require({kStepTasksPerNode}).value, kStepTasksPerNode);
  step.tasks = variables.require_number(kStepTasks, 1);
  step.task = variables.require_number(kTask, 0);
  step.local_task = variables.require_number(kLocalTask, 0);
  step.node = variables.require_number(kNode, 0);
  const auto address = variables.find({"SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST"});
  step.launch_address = address ? address->value : "";
  check_step(variables, step, nodes);
  return step;
}

}  // namespace lockstep::cluster
