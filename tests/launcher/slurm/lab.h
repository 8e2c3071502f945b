// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/process.h"
#include "support/launcher.h"

namespace lockstep::testing {

using Words = std::vector<std::string>;
using std::chrono::seconds;

// A started command; its output is stored in files.
class Running {
 public:
  explicit Running(const Words& words);

  // Waits for its end.
  Result wait();

  // Output on stdout so far.
  std::string output() const { return read_text(directory_->path() / "stdout"); }
  std::string errors() const { return read_text(directory_->path() / "stderr"); }
  bool has_ended() { return child_->find_exit().has_value(); }

 private:
  // Behind pointers, so that a Running can be stored in a vector.
  std::unique_ptr<os::TemporaryDirectory> directory_;
  std::unique_ptr<os::Child> child_;
};

// Result and output of a batch job.
struct JobEnd {
  std::string state;  // COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL
  int code = 0;
  int signal = 0;
  std::string output;  // stdout and stderr
};

// A lab of tools/slurm-lab. It ends with this object, or with this process.
class Lab {
 public:
  // Throws if a lab is possible here but does not start.
  explicit Lab(Words options = {});
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  // Why a lab is impossible here; empty if it runs.
  const std::string& reason_against() const { return reason_; }

  // Runs `slurm-lab VERB --name THIS WORDS` to its end.
  Result tool(const std::string& verb, const Words& words = {}) const;

  // Runs a command on a node, as user hpc in the directory of `work_in`, or as root. The limits
  // only catch hangs; a busy machine can take many times as long as an idle one.
  Result on(const std::string& node, const Words& command, seconds limit = seconds(120)) const;
  Result on_as_root(const std::string& node, const Words& command) const;
  Running start(const std::string& node, const Words& command, seconds limit = seconds(180)) const;

  // Runs a shell command line on a node.
  Result shell(const std::string& node,
               const std::string& line,
               seconds limit = seconds(120)) const {
    return on(node, {"bash", "-c", line}, limit);
  }

  // Submits a script with its #! line. Returns the job id. The output is in job-ID.out.
  std::string submit(const Words& options, const std::string& script) const;
  JobEnd wait_for_job(const std::string& id, seconds limit = seconds(180)) const;
  JobEnd run_job(const Words& options,
                 const std::string& script,
                 seconds limit = seconds(180)) const;

  // Makes a directory in the home of the user and uses it for later commands.
  void work_in(const std::string& name);
  std::filesystem::path path(const std::string& name) const { return home_ / directory_ / name; }
  const std::filesystem::path& home() const { return home_; }
  const std::filesystem::path& root() const { return root_; }

  // Writes an executable file into that directory. Returns its path.
  std::string write(const std::string& name, const std::string& text) const;

  // Whether such a file exists within `limit`.
  bool has_file(const std::string& name, seconds limit = seconds(60)) const;

  // Processes of the user on a node, as "PID COMMAND"; process ids of this machine.
  Words processes(const std::string& node) const;

  // ctl, n1 ...
  Words nodes() const;

  // Waits until no node has a process of the user. Returns false after a timeout.
  bool is_quiet(seconds limit = seconds(30)) const;

 private:
  Words words_for(const std::string& verb, const Words& words) const;

  std::string name_;
  std::string reason_;
  std::filesystem::path root_;  // directory of the lab
  std::filesystem::path home_;
  std::string directory_;
  int count_ = 3;
};

// Whether srun has --mpi=pmix. Debian builds Slurm 26.05 without it.
bool has_pmix(const Lab& lab);

// Why torchrun of /usr/bin/python3 cannot start workers; nothing if it can, or if there is no
// PyTorch.
std::optional<std::string> find_torchrun_fault(const Lab& lab);

// The lab shared by all tests of this process: four nodes with two GPUs each, mgmt0 blocked, ssh.
Lab& shared_lab();

// A test on the shared lab, in a separate directory. It must leave no process on any node.
class OnLab : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Lab& lab() { return shared_lab(); }
};

// Waits until `is_true` returns true, at most `limit`.
template <typename Condition>
bool comes_true(seconds limit, const Condition& is_true) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// Sorted lines of a text, because lines of several nodes arrive in any order.
Words sorted_lines(const std::string& text);

}  // namespace lockstep::testing
