// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "agent/meeting.h"
#include "os/environment.h"
#include "os/fd.h"
#include "os/process.h"
#include "os/reactor.h"
#include "plan/plan.h"

namespace lockstep::agent {

// The command lines that start agents. Pure, so that tests can read them.
std::vector<std::string> srun_command(const plan::LaunchPlan& plan, const std::string& lockstep);
std::vector<std::string> ssh_command(const plan::LaunchPlan& plan,
                                     const std::string& host,
                                     const std::string& lockstep);

// The environment for srun: without the wishes for steps that the batch script's own request left
// in it, which srun would take for ours.
os::Environment srun_environment(os::Environment environment);

// What of the launcher's environment an agent over ssh gets: all but what belongs to this machine
// and this login.
os::Environment ssh_environment(const os::Environment& environment);

// The processes (srun, ssh) through which the agents of a run are started. Their death is told, and
// what they say is kept and told. One thread.
class Starter {
 public:
  struct Ended {
    std::string what;  // "srun", "ssh n2"
    os::ExitStatus status;
    std::string last_line;
  };

  Starter(os::Reactor& reactor, std::function<void(const std::string&)> say);
  Starter(const Starter&) = delete;
  Starter& operator=(const Starter&) = delete;
  ~Starter();

  // Starts what the plan's way asks for. Throws an Error (69) when srun or ssh is not to be had.
  void start(const plan::LaunchPlan& plan,
             const MeetingPoint& point,
             const os::Environment& environment);

  // After every turn of the reactor: those that have just ended.
  std::vector<Ended> take_ended();

  bool is_empty() const { return processes_.empty(); }
  int running() const { return static_cast<int>(processes_.size()); }
  void kill();

 private:
  struct Process {
    std::string what;
    os::Child child;
    os::Fd output;
    std::string text;  // of a line that is not whole yet
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

}  // namespace lockstep::agent
