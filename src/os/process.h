// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "os/environment.h"
#include "os/fd.h"

// Processes: how they are started, how they end, and how none is left behind.
namespace lockstep::os {

// How a process ended: by itself with a code, or by a signal.
struct ExitStatus {
  int code = 0;
  int signal = 0;  // 0: it left by itself

  bool is_success() const { return code == 0 && signal == 0; }

  // As a shell tells it: the code, or 128 + the signal.
  int shell_code() const { return signal == 0 ? code : 128 + signal; }

  bool operator==(const ExitStatus&) const = default;
};

// A program to start. It runs with no signal ignored, none but those named here blocked, and with
// no other descriptors than those named here.
struct Command {
  std::string executable;              // a path; never looked up
  std::vector<std::string> arguments;  // with the program's own name first
  Environment environment;
  int stdin_fd = -1;  // -1: /dev/null
  int stdout_fd = 1;
  int stderr_fd = 2;
  std::vector<int> inherited;     // further descriptors, kept under their numbers
  std::string directory;          // empty: this one
  bool has_own_group = false;     // leads a process group of its own
  bool dies_with_parent = false;  // gets SIGKILL when the thread that started it ends
  std::vector<int> cpus = {};     // the only processors that it may use; empty: those of its parent
  uint64_t descriptor_limit = 0;  // how many it may have open; 0: as many as we
  std::vector<int> blocked = {};  // signals that wait until it asks for them
};

// A child process of ours, known by a descriptor, which is never another process by mistake.
class Child {
 public:
  // Takes charge of a process that is, or is about to become, our child.
  explicit Child(int pid);

  // Sends to the process, or, where it leads one, to its whole group. Harmless once it has ended.
  void signal(int number) const;
  void signal_group(int number) const;

  // Sends with a word, which SignalFd tells the receiver.
  void signal_with(int number, int word) const;

  // How it ended, if it has; afterwards the process is gone from the system's table.
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

// Throws an Error with the system's reason when the program cannot be started.
Child start(const Command& command);

// The child gets 0, the parent the child's number. Throws an Error when there is no room.
int fork_process();

// This process gets `signal` when the thread that made it ends. The caller must compare
// parent_process_id() afterwards: the parent may have ended before.
void set_parent_death_signal(int signal);

int parent_process_id();

// What a process is called ("slurmstepd"); empty when there is none.
std::string process_name(int pid);

// Waits until `pid` is this process's parent, as happens when everyone between has left; false
// after `timeout`.
bool wait_for_parent(int pid, std::chrono::milliseconds timeout);

// Makes this process the leader of a group of its own.
void lead_own_group();

// Orphans among our descendants become our children, not init's.
void become_subreaper();

// Takes the exit of every ended child that is not in `known`, an orphan that came to us.
void reap_strangers(const std::vector<int>& known);

// Kills every child of this process, and those that come to it as orphans, until there are none or
// `timeout` has passed. Returns how many were killed. Needs become_subreaper().
int kill_all_children(std::chrono::milliseconds timeout);

// Becomes another program: this process, its descriptors without close-on-exec, its directory.
// Throws an Error when that cannot be done.
[[noreturn]] void become(const std::string& executable,
                         std::vector<std::string> arguments,
                         const Environment& environment);

// Lets this process have as many descriptors open as the system allows; how many it was before, for
// the programs that it starts: some look at each that they could have.
uint64_t raise_descriptor_limit();

// CPU time that this process has used.
double cpu_seconds();

// Stops this process until somebody sends it SIGCONT.
void stop_self();

// Leaves at once: no destructors, no atexit handlers. For a forked child.
[[noreturn]] void leave(int code);

}  // namespace lockstep::os
