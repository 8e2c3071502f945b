// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "common/os/fd.h"

// Processes: start, exit status, and cleanup of descendants.
namespace lockstep::os {

// How a process ended: with an exit code or by a signal.
struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: it exited by itself

  bool is_success() const { return code == 0 && signal == 0; }

  // As in a shell: the exit code, or 128 + the signal.
  int shell_code() const { return signal == 0 ? code : 128 + signal; }

  bool operator==(const ExitStatus&) const = default;
};

// A program to start. No signals are ignored, only those listed here are blocked, and only the
// descriptors listed here are open.
struct Command {
  std::string executable;              // a path; PATH is not searched
  std::vector<std::string> arguments;  // including argv[0]
  Environment environment;
  int stdin_fd = -1;  // -1: /dev/null
  int stdout_fd = 1;
  int stderr_fd = 2;
  std::vector<int> inherited;     // additional descriptors, kept under their numbers
  std::string directory;          // empty: the current one
  bool has_own_group = false;     // becomes the leader of a new process group
  bool dies_with_parent = false;  // gets SIGKILL when the thread that started it ends
  std::vector<int> cpus = {};     // the only processors that it can use; empty: those of its parent
  uint64_t descriptor_limit = 0;  // maximum number of open descriptors; 0: as in this process
  std::vector<int> blocked = {};  // signals that stay blocked until the program unblocks them
};

// A child process, held by a pidfd, which never refers to another process by mistake.
class Child {
 public:
  // Adopts a process that is, or is about to become, a child of this process.
  explicit Child(int pid);

  // Signals the process, or the whole group if it leads one. Harmless after it has ended.
  void signal(int number) const;
  void signal_group(int number) const;

  // Sends a signal with a value, which SignalFd passes to the receiver.
  void signal_with(int number, int word) const;

  // The exit status, if it has ended; afterwards the process is removed from the process table.
  std::optional<ExitStatus> find_exit();

  // Waits until it ends.
  ExitStatus wait();

  int pid() const { return pid_; }

  // Readable when the process has ended.
  int fd() const { return fd_.number(); }

 private:
  int pid_;
  Fd fd_;
  std::optional<ExitStatus> status_;
};

// Throws an Error with the reason if the program cannot be started.
Child start(const Command& command);

// Returns 0 in the child and the process number of the child in the parent. Throws on failure.
int fork_process();

// Delivers `signal` to this process when the thread that created it ends. The caller must check
// parent_process_id() afterwards: the parent may have ended before the call.
void set_parent_death_signal(int signal);

int parent_process_id();

// The name of a process ("slurmstepd"); empty if there is none.
std::string process_name(int pid);

// Waits until `pid` is the parent of this process, which happens when all processes in between have
// exited; false after `timeout`.
bool wait_for_parent(int pid, std::chrono::milliseconds timeout);

// Makes this process the leader of a new process group.
void lead_own_group();

// Orphaned descendants become children of this process instead of init.
void become_subreaper();

// Collects the exit of every ended child that is not in `known`: adopted orphans.
void reap_strangers(const std::vector<int>& known);

// Kills all children of this process, including orphans that it adopts, until none is left or
// `timeout` has passed. Returns the number of killed processes. Requires become_subreaper().
int kill_all_children(std::chrono::milliseconds timeout);

// Replaces the program of this process, as execve does; keeps the directory and the descriptors
// without close-on-exec. Throws an Error on failure.
[[noreturn]] void become(const std::string& executable,
                         std::vector<std::string> arguments,
                         const Environment& environment);

// Raises the limit of open descriptors to the maximum. Returns the previous limit for child
// programs: some iterate over all possible descriptors.
uint64_t raise_descriptor_limit();

// CPU time used by this process.
double cpu_seconds();

// Stops this process until it receives SIGCONT.
void stop_self();

// Exits immediately, without destructors and atexit handlers. For a forked child.
[[noreturn]] void leave(int code);

}  // namespace lockstep::os
