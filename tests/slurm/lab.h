// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "os/environment.h"
#include "os/files.h"
#include "os/process.h"
#include "support/launcher.h"

namespace lockstep::testing {

using Words = std::vector<std::string>;
using std::chrono::seconds;

// A command that has been started; what it says is kept in files.
class Running {
 public:
  explicit Running(const Words& words);

  // Waits until it ends.
  Result wait();

  // What it has written to stdout so far.
  std::string output() const { return read_text(directory_->path() / "stdout"); }
  std::string errors() const { return read_text(directory_->path() / "stderr"); }
  bool has_ended() { return child_->find_exit().has_value(); }

 private:
  // Behind pointers, so that a Running can be kept in a vector.
  std::unique_ptr<os::TemporaryDirectory> directory_;
  std::unique_ptr<os::Child> child_;
};

// How a batch job ended, and what it wrote.
struct JobEnd {
  std::string state;  // COMPLETED, FAILED, CANCELLED, TIMEOUT, NODE_FAIL
  int code = 0;
  int signal = 0;
  std::string output;  // stdout and stderr
};

// A lab of tools/slurm-lab, up for as long as this object lives, and no longer than this process.
class Lab {
 public:
  // Throws when it could be had and did not come up.
  explicit Lab(Words options = {});
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  // Why there is no lab here; empty when there is one.
  const std::string& reason_against() const { return reason_; }

  // `slurm-lab VERB --name THIS WORDS`, to its end.
  Result tool(const std::string& verb, const Words& words = {}) const;

  // A command on a node, as user hpc in the directory chosen with `work_in`, or as root. Limits are
  // for what hangs; a busy machine may take many times as long as an idle one.
  Result on(const std::string& node, const Words& command, seconds limit = seconds(120)) const;
  Result on_as_root(const std::string& node, const Words& command) const;
  Running start(const std::string& node, const Words& command, seconds limit = seconds(180)) const;

  // A shell's command line on a node.
  Result shell(const std::string& node,
               const std::string& line,
               seconds limit = seconds(120)) const {
    return on(node, {"bash", "-c", line}, limit);
  }

  // Submits a script, a first line and all; its number. What it says goes to job-NUMBER.out.
  std::string submit(const Words& options, const std::string& script) const;
  JobEnd wait_for_job(const std::string& id, seconds limit = seconds(180)) const;
  JobEnd run_job(const Words& options,
                 const std::string& script,
                 seconds limit = seconds(180)) const;

  // Makes a directory below the user's home and works there from now on.
  void work_in(const std::string& name);
  std::filesystem::path path(const std::string& name) const { return home_ / directory_ / name; }
  const std::filesystem::path& home() const { return home_; }
  const std::filesystem::path& root() const { return root_; }

  // Writes an executable file into that directory; its path.
  std::string write(const std::string& name, const std::string& text) const;

  // Whether such a file is there within `limit`.
  bool has_file(const std::string& name, seconds limit = seconds(60)) const;

  // The user's processes on a node, as "NUMBER COMMAND"; numbers are this machine's.
  Words processes(const std::string& node) const;

  // ctl, n1 ...
  Words nodes() const;

  // Whether no node has a process of the user's, or has none soon.
  bool is_quiet(seconds limit = seconds(30)) const;

 private:
  Words words_for(const std::string& verb, const Words& words) const;

  std::string name_;
  std::string reason_;
  std::filesystem::path root_;  // the lab's directory
  std::filesystem::path home_;
  std::string directory_;
  int count_ = 3;
};

// The lab that all tests of this process share: four nodes with two GPUs each, mgmt0 dropped, ssh.
Lab& shared_lab();

// A test on the shared lab, in a directory of its own; it leaves no process behind, on no node.
class OnLab : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  Lab& lab() { return shared_lab(); }
};

// Waits until `is_true`, at most `limit`.
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

// A text's lines, sorted, as those of several nodes come in any order.
Words sorted_lines(const std::string& text);

}  // namespace lockstep::testing
