// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/os/process.h"
#include "launcher/plan/node_spec.h"
#include "launcher/supervisor/failure/failure.h"
#include "launcher/supervisor/failure/process_id.h"
#include "launcher/supervisor/failure/verdict.h"

namespace lockstep::supervisor {

// How an attempt ends: the exits of its processes, the loss of a node, and the failure that follows
// from them. Without I/O. Not thread-safe.
class AttemptOutcome {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit AttemptOutcome(Time now) : began_(now), failed_at_(now) {}

  // ---- input ----
  // Forgets everything but the times, for the next attempt. They change when its workers start.
  void clear();
  void start(Time now) { began_ = failed_at_ = now; }
  void record_exit(ProcessId process, os::ExitStatus status, int sent);
  void record_stop(int signal) { verdict_.record_stop(signal); }
  // The workers on other nodes often notice a lost node before its heartbeat times out, and exit
  // with a code. A loss therefore takes the blame from a worker that exited by itself, but not from
  // one that was killed by a signal.
  void record_loss(const std::string& node, const std::string& why);
  // The time of the first failure.
  void set_failed_at(Time now) { failed_at_ = now; }

  // ---- output ----
  // Whether the workers must be stopped.
  bool is_over() const { return verdict_.is_over() || lost_.has_value(); }
  bool has_failed() const { return verdict_.cause() || lost_; }
  // Whether the cause is the loss of a node.
  bool is_node_lost() const { return lost_.has_value(); }
  // The process that failed first, if one did.
  std::optional<ProcessId> cause() const { return verdict_.cause(); }
  // Whether the exit that explains the failure may still be reported: so far, a worker has only
  // exited with code 75, as one that lost a peer does.
  bool may_have_another_cause() const { return !lost_ && verdict_.may_have_another_cause(); }
  int exit_code() const { return verdict_.exit_code(); }
  // Number of workers that have ended.
  int ended_workers() const;
  Time began() const { return began_; }
  // Seconds from the start of the attempt to the failure.
  double seconds() const;

  // Requires is_node_lost().
  Failure failure_of_loss() const;
  // The failure of a process as far as the Leader knows it: used for the first line, and if no
  // report arrives. Requires a recorded exit.
  Failure failure_without_report(ProcessId process, const std::string& node, int attempt) const;
  // The workers that ended after a signal of their agent, other than the one that failed.
  std::vector<StoppedWorkers> count_stopped(const Failure& failure,
                                            std::span<const plan::NodeSlot> slots) const;

 private:
  Verdict verdict_;
  std::map<ProcessId, os::ExitStatus> statuses_;
  std::set<ProcessId> sent_to_;      // those that ended after their agent had sent them a signal
  std::optional<std::string> lost_;  // the node whose loss is the cause
  std::string lost_why_;
  Time began_;
  Time failed_at_;
};

}  // namespace lockstep::supervisor
