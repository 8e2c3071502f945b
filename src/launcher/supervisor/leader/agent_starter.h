// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "common/os/environment.h"
#include "common/os/fd.h"
#include "common/os/process.h"
#include "common/os/reactor.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/protocol/rendezvous.h"

namespace lockstep::supervisor {

// The command lines that start agents.
std::vector<std::string> srun_command(const plan::LaunchPlan& plan, const std::string& lockstep);
std::vector<std::string> ssh_command(const plan::LaunchPlan& plan,
                                     const std::string& host,
                                     const std::string& lockstep);

// The environment for srun, without the variables with which the options of sbatch would become
// options of this srun.
os::Environment srun_environment(os::Environment environment);

// The variables for an agent over ssh: all except those that belong to this machine or this login.
os::Environment ssh_environment(const os::Environment& environment);

// The processes (srun, ssh) that start the agents of a run. Reports their exits and passes their
// output on. Not thread-safe.
class AgentStarter {
 public:
  struct Ended {
    std::string what;  // "srun", "ssh n2"
    os::ExitStatus status;
    std::string last_line;
  };

  AgentStarter(os::Reactor& reactor, std::function<void(const std::string&)> say);
  AgentStarter(const AgentStarter&) = delete;
  AgentStarter& operator=(const AgentStarter&) = delete;
  ~AgentStarter();

  // Starts the processes for the launch mode of the plan. Throws an Error (69) if srun or ssh is
  // not installed.
  void start(const plan::LaunchPlan& plan,
             const RendezvousPoint& point,
             const os::Environment& environment);

  // The processes that have ended since the last call. Call it after every turn of the reactor.
  std::vector<Ended> take_ended();

  bool is_empty() const { return processes_.empty(); }
  int running() const { return static_cast<int>(processes_.size()); }
  void kill();

 private:
  struct Process {
    std::string what;
    os::Child child;
    os::Fd output;
    std::string text;  // of an incomplete line
    std::string last_line;
  };
  void add(const std::string& what,
           const std::vector<std::string>& command,
           const os::Environment& environment,
           const std::string& input);
  void read(Process& process);

  os::Reactor& reactor_;
  std::function<void(const std::string&)> say_;
  std::list<Process> processes_;
};

}  // namespace lockstep::supervisor
