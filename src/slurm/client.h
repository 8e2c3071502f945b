// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "os/command.h"
#include "os/environment.h"
#include "slurm/facts.h"
#include "slurm/job_info.h"

namespace lockstep::slurm {

// A batch script and how it is handed to sbatch.
struct Submission {
  std::string script;                       // its text, with #! and directives
  std::vector<std::string> arguments = {};  // options of sbatch, which win over directives
  std::filesystem::path script_file = {};   // read by sbatch instead of the text; empty: none
  std::filesystem::path directory = {};     // where the job runs; empty: this one
};

// Slurm's commands as functions.
//
// Every call is a program of Slurm's that ends within `patience`. Where Slurm cannot be had (no
// such program, no controller, no munge, no answer) each throws an Error (69) that says which.
class Client {
 public:
  struct Options {
    std::chrono::milliseconds patience = std::chrono::seconds(30);
    int stop_fd = -1;  // readable: calls throw an Error (130) at once
  };

  // Programs are looked up in the PATH of `environment`, jobs submitted with it (but for what
  // belongs to an enclosing job: submit_environment).
  explicit Client(os::Environment environment) : Client(std::move(environment), Options()) {}
  Client(os::Environment environment, Options options);

  // Whether this machine has sbatch.
  bool is_installed() const;

  // Throws the Error (69) for a machine without sbatch.
  void need_installed() const;

  // The new job's number. Throws an Error (64) with the translated reason when Slurm refuses it.
  std::string submit(const Submission& submission) const;

  // sbatch --test-only: what Slurm says to it ("Job 12 to start at ..."); submits nothing. Throws
  // as submit().
  std::string test(const Submission& submission) const;

  // The job, or all tasks of an array, from slurmctld or, where that has forgotten it, from
  // accounting; none: nobody knows it.
  std::vector<JobInfo> find_jobs(const std::string& id) const;

  // Ends a job, or sends a signal ("TERM") to its steps, with `is_full` also to its script. Throws
  // an Error (64) for a job that is not there, has ended or is not the user's.
  void cancel(const std::string& id) const;
  void signal(const std::string& id, const std::string& name, bool is_full) const;

  Settings settings() const;

  // All that check() needs.
  ClusterFacts facts() const;

  // What srun can start MPI programs with; empty when it does not tell.
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

// "123", "123;cluster" or "Submitted batch job 123": the number, if there is one.
std::optional<std::string> find_job_id(std::string_view output);

}  // namespace lockstep::slurm
