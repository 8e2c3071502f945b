// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>

#include "common/base/text.h"
#include "launcher/doctor/finding.h"

// Known traps of Slurm, each recognized from the variables of the job. lockstep run avoids most of
// them by passing every relevant option to srun explicitly (srun_command in agent_starter.cpp); the
// findings are for scripts that call srun themselves.
namespace lockstep::doctor {
namespace {

constexpr size_t kMaxNamed = 8;

Finding of_slurm(Severity severity,
                 std::string subject,
                 std::string text,
                 std::string source = "") {
  return {.section = Section::Slurm,
          .severity = severity,
          .subject = std::move(subject),
          .text = std::move(text),
          .source = std::move(source),
          .advice = {}};
}

Finding advised(Finding finding, std::string advice) {
  finding.advice.push_back(std::move(advice));
  return finding;
}

class JobVariables {
 public:
  explicit JobVariables(const SlurmFacts& slurm) : variables_(slurm.variables) {}

  std::optional<std::string> text(const std::string& name) const {
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<int64_t> number(const std::string& name) const {
    const auto found = text(name);
    return found ? find_integer(*found) : std::nullopt;
  }
  int64_t nodes() const {
    return number("SLURM_JOB_NUM_NODES").value_or(number("SLURM_NNODES").value_or(1));
  }

 private:
  const std::map<std::string, std::string>& variables_;
};

// Before 22.05, srun inherits -c from the job. The release notes of Slurm 22.05: srun no longer
// reads SLURM_CPUS_PER_TASK; SRUN_CPUS_PER_TASK replaces it. An unknown version (--quick) counts as
// a newer one.
bool hands_cpus_on(const std::string& version) {
  const auto words = split(version, '.');
  const auto major = words.empty() ? std::nullopt : find_integer(words[0]);
  const auto minor = words.size() < 2 ? std::nullopt : find_integer(words[1]);
  return major && minor && (*major < 22 || (*major == 22 && *minor < 5));
}

// --ntasks and --ntasks-per-node together are legal: the second is then an upper bound. Launchers
// that multiply nodes by tasks per node wait for tasks that do not exist.
void check_tasks(Findings& findings, const JobVariables& job) {
  const auto tasks = job.number("SLURM_NTASKS");
  const auto per_node = job.number("SLURM_NTASKS_PER_NODE");
  if (tasks && per_node && *tasks != *per_node * job.nodes()) {
    findings.push_back(advised(
        of_slurm(Severity::Warning,
                 "tasks",
                 fmt::format(
                     "{} tasks do not match {} nodes x {} tasks", *tasks, job.nodes(), *per_node),
                 "SLURM_NTASKS, SLURM_NTASKS_PER_NODE"),
        fmt::format("omit --ntasks, or use --ntasks={}", *per_node * job.nodes())));
  }
}

void check_cpus(Findings& findings, const JobVariables& job, const std::string& version) {
  const auto cpus = job.number("SLURM_CPUS_PER_TASK");
  if (!cpus || *cpus <= 1 || hands_cpus_on(version)) {
    return;
  }
  const auto passed = job.number("SRUN_CPUS_PER_TASK");
  if (passed == cpus) {
    return;
  }
  findings.push_back(
      advised(of_slurm(Severity::Warning,
                       "cpus per task",
                       fmt::format("the job has {} CPUs per task, but srun gives each task one: "
                                   "since 22.05, srun does not inherit the number from the job "
                                   "(lockstep run is not affected)",
                                   *cpus),
                       "SLURM_CPUS_PER_TASK"),
              "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"));
}

// One task per node (a launcher that starts the workers) and one task per GPU are the two
// arrangements that work. Everything else leaves GPUs idle or shares them.
void check_gpus_per_task(Findings& findings, const JobVariables& job) {
  const auto gpus = job.number("SLURM_GPUS_ON_NODE");
  const auto tasks = job.number("SLURM_NTASKS_PER_NODE");
  if (!gpus || !tasks || *gpus < 1 || *tasks == 1 || *tasks == *gpus) {
    return;
  }
  findings.push_back(
      advised(of_slurm(Severity::Warning,
                       "GPUs and tasks",
                       fmt::format("{} tasks on a node with {}: {}",
                                   *tasks,
                                   plural(*gpus, "GPU"),
                                   *tasks < *gpus ? "some GPUs stay idle" : "some GPUs are shared"),
                       "SLURM_NTASKS_PER_NODE, SLURM_GPUS_ON_NODE"),
              fmt::format("--ntasks-per-node={0} for srun, or --ntasks-per-node=1 for lockstep run",
                          *gpus)));
}

// Within a step, SLURM_CPU_BIND describes the step itself and is correct. In a batch script it can
// only come from outside, for example from sbatch called within salloc or srun --pty.
void check_leaks(Findings& findings, const JobVariables& job, bool is_in_step) {
  const auto bind = job.text("SLURM_CPU_BIND");
  if (bind && !is_in_step) {
    findings.push_back(advised(
        of_slurm(
            Severity::Warning,
            "CPU binding",
            fmt::format("'{}' is inherited from an enclosing srun and binds every step of this "
                        "script to its cores (lockstep run is not affected)",
                        *bind),
            "SLURM_CPU_BIND"),
        "unset ${!SLURM_CPU_BIND*}"));
  }
  if (job.text("SLURM_EXPORT_ENV").value_or("") == "NONE") {
    findings.push_back(advised(of_slurm(Severity::Warning,
                                        "environment",
                                        "srun passes no variables to its tasks (lockstep run does)",
                                        "SLURM_EXPORT_ENV=NONE"),
                               "export SLURM_EXPORT_ENV=ALL"));
  }
}

// Occurs if sbatch is called within a job with another kind of memory option: the variable of the
// outer job stays, and srun treats both as options.
void check_memory(Findings& findings, const JobVariables& job) {
  std::vector<std::string> set;
  for (const char* name : {"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU", "SLURM_MEM_PER_NODE"}) {
    if (job.text(name)) {
      set.emplace_back(name);
    }
  }
  if (set.size() > 1) {
    findings.push_back(advised(of_slurm(Severity::Broken,
                                        "memory",
                                        "srun fails: these variables exclude each other",
                                        join(set, ", ")),
                               "unset " + set.front()));
  }
}

std::string describe_partitions(const std::vector<PartitionFact>& partitions) {
  constexpr size_t kMaximum = 6;
  std::vector<std::string> texts;
  for (const PartitionFact& one : partitions) {
    const std::string gpus = one.gpus.empty() || one.gpus == "(null)" ? "" : ", " + one.gpus;
    texts.push_back(fmt::format("{} ({}, {} node{}, limit {}{})",
                                one.name,
                                one.state,
                                one.nodes,
                                one.nodes == "1" ? "" : "s",
                                one.time_limit,
                                gpus));
  }
  return name_some(texts, kMaximum);
}

// No Slurm is a valid result on a workstation. Inside a job it is an error, typically a container
// without the commands.
void check_service(Findings& findings, const Facts& facts) {
  const SlurmFacts& slurm = facts.slurm;
  if (slurm.version.empty()) {
    if (slurm.is_in_job && !facts.is_quick) {
      findings.push_back(advised(of_slurm(Severity::Broken,
                                          "commands",
                                          "inside a job, but sinfo and srun are not found",
                                          "PATH"),
                                 "load the module of Slurm, or bind its commands into the "
                                 "container"));
    } else if (!slurm.controller.empty()) {
      findings.push_back(of_slurm(Severity::Ok,
                                  "version",
                                  "installed, but not configured: " + slurm.controller,
                                  "sinfo --version"));
    } else if (!facts.is_quick) {
      findings.push_back(of_slurm(Severity::Ok, "version", "no Slurm on this machine", "PATH"));
    }
    return;
  }
  findings.push_back(of_slurm(Severity::Ok, "version", slurm.version, "sinfo --version"));
  if (slurm.is_controller_up == true) {
    findings.push_back(of_slurm(Severity::Ok, "controller", slurm.controller, "scontrol ping"));
    findings.push_back(
        of_slurm(Severity::Ok, "partitions", describe_partitions(slurm.partitions), "sinfo"));
  } else {
    findings.push_back(
        advised(of_slurm(Severity::Broken, "controller", slurm.controller, "scontrol ping"),
                "scontrol ping, later; report it to the administrators if it persists"));
  }
}

}  // namespace

Findings check_slurm(const Facts& facts) {
  Findings findings;
  check_service(findings, facts);
  const CrossNodeFacts& cross_node = facts.cross_node;
  if (!cross_node.fault.empty()) {
    findings.push_back(advised(of_slurm(Severity::Broken, "agents", cross_node.fault, "srun"),
                               "srun hostname, in this job"));
  }
  if (!cross_node.missing.empty()) {
    findings.push_back(
        advised(of_slurm(Severity::Broken,
                         "nodes",
                         fmt::format("{} did not answer; the report covers the other nodes",
                                     name_some(cross_node.missing, kMaxNamed)),
                         "srun lockstep agent"),
                fmt::format("srun -w {} hostname; scontrol show node {}; submit with --exclude={}",
                            cross_node.missing.front(),
                            cross_node.missing.front(),
                            join(cross_node.missing, ","))));
  }
  if (!cross_node.silent.empty()) {
    findings.push_back(
        advised(of_slurm(Severity::Broken,
                         "nodes",
                         fmt::format("{} did not report its facts in time",
                                     name_some(cross_node.silent, kMaxNamed)),
                         "srun lockstep agent"),
                fmt::format("srun -w {} lockstep doctor --quick", cross_node.silent.front())));
  }
  return findings;
}

Findings check_job(const SlurmFacts& slurm) {
  Findings findings;
  if (!slurm.fault_of_job.empty()) {
    std::vector<std::string> lines = split(slurm.fault_of_job, '\n');
    Finding finding = advised(
        of_slurm(Severity::Broken, "job", "lockstep run fails: " + lines.front(), "SLURM_*"),
        "lockstep run --dry-run true, after a correction");
    finding.table.assign(lines.begin() + 1, lines.end());
    findings.push_back(std::move(finding));
  }
  if (!slurm.is_in_job) {
    return findings;
  }
  const JobVariables job(slurm);
  findings.push_back(of_slurm(Severity::Ok,
                              "job",
                              fmt::format("{} on {} ({})",
                                          job.text("SLURM_JOB_ID").value_or("?"),
                                          job.text("SLURM_JOB_NODELIST").value_or("?"),
                                          plural(job.nodes(), "node")),
                              "SLURM_JOB_*"));
  if (slurm.is_in_step) {
    findings.push_back(
        advised(of_slurm(Severity::Warning,
                         "step",
                         "inside a step with several tasks: each task examines only its node",
                         "SLURM_STEP_ID"),
                "lockstep doctor in the batch script, without srun"));
    return findings;  // srun has replaced the variables of the job by those of the step
  }
  check_tasks(findings, job);
  check_cpus(findings, job, slurm.version);
  check_gpus_per_task(findings, job);
  check_leaks(findings, job, slurm.is_in_step);
  check_memory(findings, job);
  return findings;
}

}  // namespace lockstep::doctor
