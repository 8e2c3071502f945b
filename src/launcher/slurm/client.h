// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/command.h"
#include "common/os/environment.h"
#include "launcher/slurm/facts.h"
#include "launcher/slurm/job_info.h"

namespace lockstep::slurm {

// A batch script and its sbatch options.
struct Submission {
  std::string script;                       // text, with #! line and directives
  std::vector<std::string> arguments = {};  // sbatch options; override directives
  std::filesystem::path script_file = {};   // read by sbatch instead of `script`; empty: none
  std::filesystem::path directory = {};     // working directory of the job; empty: current
};

// Slurm commands as functions.
//
// Every call runs one Slurm command with the timeout `patience`. All functions throw an Error (69)
// with the cause if Slurm is unavailable: no such command, no controller, no munge, no answer.
class Client {
 public:
  struct Options {
    std::chrono::milliseconds patience = std::chrono::seconds(30);
    int stop_fd = -1;  // if readable, calls throw an Error (130) immediately
  };

  // Commands are found in the PATH of `environment`. Jobs inherit it without the variables of an
  // enclosing job, see submit_environment().
  explicit Client(os::Environment environment) : Client(std::move(environment), Options()) {}
  Client(os::Environment environment, Options options);

  // Whether this machine has sbatch.
  bool is_installed() const;

  // Throws an Error (69) if this machine has no sbatch.
  void need_installed() const;

  // Returns the job id. Throws an Error (64) with an explanation if Slurm rejects the job.
  std::string submit(const Submission& submission) const;

  // Runs sbatch --test-only and returns its estimate ("Job 12 to start at ..."); does not submit.
  // Throws like submit().
  std::string test(const Submission& submission) const;

  // Returns the job, or all tasks of an array, from slurmctld or, if it was already purged there,
  // from accounting. Empty if the job is unknown to both.
  std::vector<JobInfo> find_jobs(const std::string& id) const;

  // cancel() ends a job. signal() sends a signal ("TERM") to its steps, with `is_full` also to its
  // script. Both throw an Error (64) if the job is unknown, has ended or belongs to another user.
  void cancel(const std::string& id) const;
  void signal(const std::string& id, const std::string& name, bool is_full) const;

  Settings settings() const;

  // Collects the facts for check().
  ClusterFacts facts() const;

  // MPI types of srun; empty if srun does not list them.
  std::vector<std::string> mpi_types() const;

 private:
  os::CommandResult run(std::vector<std::string> words, const os::CommandOptions& options) const;
  os::CommandResult ask(std::vector<std::string> words) const;
  std::string must_tell(std::vector<std::string> words) const;
  os::CommandResult batch(const Submission& submission, const std::string& option) const;
  std::optional<Accounts> find_accounts() const;
  void kill(const std::string& id, std::vector<std::string> words) const;

  os::Environment environment_;
  Options options_;
};

// Finds the job id in "123", "123;cluster" or "Submitted batch job 123".
std::optional<std::string> find_job_id(std::string_view output);

}  // namespace lockstep::slurm
