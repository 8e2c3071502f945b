// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "contract/requeue_record.h"
#include "contract/run_directory.h"
#include "plan/plan.h"

// A Slurm job whose training needs more time than one turn: when Slurm tells that its time is
// nearly over, the workers save and leave, and the job is put back into the queue.
namespace lockstep::agent {

// What is known when a turn is over.
struct TurnEnd {
  int code = 0;
  bool is_limit_near = false;  // the workers were stopped because the time is nearly over
  bool is_cancelled = false;   // somebody asked to stop
  bool has_progress = false;   // something was saved in this turn
  long long step = 0;          // of the newest complete checkpoint; 0: none
  std::optional<double> checkpoint_seconds;
};

struct RequeueAnswer {
  bool is_again = false;
  std::string how;      // it ended: "time limit near: stopped at step 400"; empty: others say it
  std::string why_not;  // empty where nobody expects the job to be put back
};

// Whether the job shall be put back. Pure.
//
// A run that leaves with 75 asks for it: workers say so that were stopped at a checkpoint, or have
// lost a peer, and so does the launcher that has lost a node. A program that knows nothing of 75
// asks for it by having saved something before it was stopped for the time limit. Nobody who
// cancels a run wants it back. Two turns in a row that save nothing are enough.
RequeueAnswer judge_requeue(const plan::RequeueRules& rules,
                            const contract::RequeueRecord& before,
                            const TurnEnd& end);

// Seconds, from what `squeue -o %L` says: "1-02:03:04", "3:04"; nothing for UNLIMITED and the like.
std::optional<double> find_time_left(std::string_view text);

// From which attempt on this turn counts, so that logs of earlier turns stay, and workers know that
// they go on.
int first_attempt(const plan::LaunchPlan& plan);

// One turn of such a job.
class Requeue {
 public:
  using Clock = std::chrono::system_clock;

  // The plan must outlive it, and have rules.
  explicit Requeue(const plan::LaunchPlan& plan);

  // Slurm tells that the time is nearly over: how many seconds the workers may have. Asks squeue
  // where the environment does not know the end of the job, five seconds at most.
  double take_limit();

  // Somebody asks to stop. Slurm itself does so at the time limit, which cancels nothing.
  void take_cancel(Clock::time_point now);

  bool is_limit_near() const { return is_limit_near_; }

  // The turn is over, nothing runs any more: puts the job back, or not. What the user shall know;
  // may be empty. `is_stopped`: the workers were asked to stop before anything failed.
  std::string end(int code, bool is_stopped);

  bool is_requeued() const { return is_requeued_; }

 private:
  bool has_progress() const;
  // Empty when it worked, else why not.
  std::string put_back() const;

  const plan::LaunchPlan& plan_;
  const plan::RequeueRules& rules_;
  contract::RunDirectory directory_;
  long long step_before_ = 0;
  std::string stamp_before_;  // of the progress file
  bool is_limit_near_ = false;
  bool is_cancelled_ = false;
  bool is_requeued_ = false;
  std::optional<Clock::time_point> limit_;
};

}  // namespace lockstep::agent
