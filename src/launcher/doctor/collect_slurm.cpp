// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/doctor/collect.h"
#include "launcher/doctor/run_with_timeout.h"
#include "launcher/plan/plan.h"
#include "lockstep/error.h"

// Each command can hang if the controller does not respond, so each has a timeout, and a controller
// that is down is asked no further questions. `srun --mpi=list` is local: it lists plugins.
namespace lockstep::doctor {
namespace {

constexpr std::chrono::seconds kLimit(10);

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

// One line per partition and node type. %P|%a|%l|%D|%G: partition, availability, time limit, nodes,
// generic resources. The bar does not occur in any of them.
std::vector<PartitionFact> read_partitions(const std::string& text) {
  std::vector<PartitionFact> partitions;
  for (const std::string& line : split(text, '\n')) {
    const auto words = split(line, '|');
    if (words.size() == 5) {
      partitions.push_back({.name = words[0],
                            .state = words[1],
                            .time_limit = words[2],
                            .nodes = words[3],
                            .gpus = words[4]});
    }
  }
  return partitions;
}

void ask_slurm(SlurmFacts& facts, const os::Environment& environment) {
  const auto ping = run_with_timeout({"scontrol", "ping"}, environment, kLimit);
  facts.controller = ping ? first_line(ping->output.empty() ? ping->errors : ping->output)
                          : fmt::format("no answer within {} s", kLimit.count());
  facts.is_controller_up =
      ping && ping->status.is_success() && ping->output.find("UP") != std::string::npos;
  if (*facts.is_controller_up) {
    const auto list =
        run_with_timeout({"sinfo", "-h", "-o", "%P|%a|%l|%D|%G"}, environment, kLimit);
    facts.partitions = read_partitions(list ? list->output : "");
  }
  if (const auto types = run_with_timeout({"srun", "--mpi=list"}, environment, kLimit)) {
    const std::string text = types->output + types->errors;
    std::string words;
    for (const std::string& line : split(text, '\n')) {
      words += line.empty() ? "" : line + "; ";
    }
    facts.mpi_types = words;
  }
}

// Keeps only the variables that the checks read, so that the report contains no private data.
void keep_variables(SlurmFacts& facts, const os::Environment& environment) {
  constexpr std::array kNames = {"SLURM_JOB_ID",          "SLURM_JOB_PARTITION",
                                 "SLURM_JOB_NUM_NODES",   "SLURM_NNODES",
                                 "SLURM_JOB_NODELIST",    "SLURM_NTASKS",
                                 "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE",
                                 "SLURM_CPUS_PER_TASK",   "SRUN_CPUS_PER_TASK",
                                 "SLURM_CPUS_ON_NODE",    "SLURM_JOB_CPUS_PER_NODE",
                                 "SLURM_GPUS_ON_NODE",    "SLURM_GPUS_PER_NODE",
                                 "SLURM_GPUS_PER_TASK",   "SLURM_GPUS",
                                 "SLURM_JOB_GPUS",        "SLURM_CPU_BIND",
                                 "SLURM_CPU_BIND_TYPE",   "SLURM_EXPORT_ENV",
                                 "SLURM_MEM_PER_CPU",     "SLURM_MEM_PER_GPU",
                                 "SLURM_MEM_PER_NODE",    "SLURM_STEP_ID",
                                 "SLURM_PROCID",          "SLURM_RESTART_COUNT"};
  for (const char* name : kNames) {
    if (const auto value = os::find_variable(environment, name)) {
      facts.variables[name] = *value;
    }
  }
}

// The same function as lockstep run, with a program that does nothing: the report shows the same
// error that the user would get.
std::string find_fault_of_job(const plan::HostEnvironment& here) {
  plan::Request request;
  request.program = {"true"};
  try {
    plan::make_plan(request, here);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

SlurmFacts collect_slurm(const plan::HostEnvironment& here, bool is_quick) {
  SlurmFacts facts;
  if (!is_quick) {
    if (const auto version = run_with_timeout({"sinfo", "--version"}, here.environment, kLimit)) {
      facts.version = find_version(version->output);
      if (facts.version.empty()) {  // not configured: the other commands cannot reach a controller
        facts.controller = first_line(version->errors);
      } else {
        ask_slurm(facts, here.environment);
      }
    }
  }
  facts.is_in_job = here.job.has_value();
  facts.is_in_step = here.step && here.step->tasks > 1;
  if (facts.is_in_job || facts.is_in_step) {
    keep_variables(facts, here.environment);
    facts.fault_of_job = find_fault_of_job(here);
  }
  return facts;
}

}  // namespace lockstep::doctor
