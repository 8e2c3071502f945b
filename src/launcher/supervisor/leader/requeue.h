// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "common/contract/requeue_record.h"
#include "common/contract/run_directory.h"
#include "launcher/plan/plan.h"

// --requeue: a training that needs more time than one allocation of its Slurm job.
//
//   sbatch --signal=B:USR1@SECONDS sends the signal SECONDS before the time limit
//     -> begin_grace_at_limit(): how long the workers may take to save a checkpoint and exit
//     -> Leader::stop_at_limit(): SIGTERM, grace period, SIGKILL
//     -> end(): decides, writes RUN/requeue.json, runs `scontrol requeue`
//
// The run directory stays the same. The next allocation numbers its attempts from first_attempt()
// on, and the program resumes from its checkpoint.
namespace lockstep::supervisor {

// The end of the run in one allocation.
struct TurnEnd {
  int code = 0;                // exit code of the run
  bool is_limit_near = false;  // the workers were stopped because of the time limit
  bool is_cancelled = false;   // the user asked to stop
  bool has_progress = false;   // a checkpoint was saved in this allocation
  long long step = 0;          // of the newest complete checkpoint; 0: none
  std::optional<double> checkpoint_seconds;
};

struct RequeueAnswer {
  bool is_again = false;
  std::string how;      // "time limit near: stopped at step 400"; empty: not a case for a requeue
  std::string why_not;  // empty if the user does not expect a requeue
};

// Decides whether to requeue the job. Has no side effects. The first row that applies wins:
//
//   cancelled, exit code 0, or neither 75 nor the time limit   no, without a message
//   time limit, code other than 75, nothing saved              no
//   nothing saved, as in the allocation before                 no: the job would loop for ever
//   --max-requeues reached                                     no
//   otherwise                                                  yes
//
// Exit code 75 is a request to start again: from workers that stopped at a checkpoint or lost a
// peer, or from a launcher that lost a node. A program that does not use 75 shows by a checkpoint
// that a continuation makes sense.
RequeueAnswer judge_requeue(const plan::RequeueRules& rules,
                            const contract::RequeueRecord& before,
                            const TurnEnd& end);

// Parses the output of `squeue -o %L` into seconds: "1-02:03:04", "3:04". Nothing for UNLIMITED,
// INVALID and the like.
std::optional<double> find_time_left(std::string_view text);

// The number of the first attempt in this allocation: larger than all before, so that their logs
// stay, and larger than 0 after a requeue, so that workers know that they resume.
int first_attempt(const plan::LaunchPlan& plan);

// The run in one allocation of such a job. Not thread-safe.
class Requeue {
 public:
  using Clock = std::chrono::system_clock;

  // The plan must outlive this object, and plan.requeue must be set. Remembers the progress so far.
  explicit Requeue(const plan::LaunchPlan& plan);

  // The time limit is near. Returns the grace period of the workers in seconds. Runs squeue, for at
  // most five seconds, if the environment does not contain the end time of the job, or if that time
  // has passed.
  double begin_grace_at_limit();

  // A request to stop. It cancels the requeue, unless it arrives at the time limit: Slurm sends
  // SIGTERM there itself.
  void take_cancel(Clock::time_point now);

  bool is_limit_near() const { return is_limit_near_; }

  // Decides, and requeues the job. No process of the run may be left, because Slurm kills all of
  // them. `is_stopped`: the workers were asked to stop before anything failed. Returns a line for
  // the user; may be empty.
  std::string end(int code, bool is_stopped);

  bool is_requeued() const { return is_requeued_; }

 private:
  bool has_progress() const;
  // Returns an error message; empty if it succeeded.
  std::string put_back() const;

  const plan::LaunchPlan& plan_;
  const plan::RequeueRules& rules_;
  contract::RunDirectory directory_;
  long long step_before_ = 0;
  std::string stamp_before_;  // of --progress-file
  bool is_limit_near_ = false;
  bool is_cancelled_ = false;
  bool is_requeued_ = false;
  std::optional<Clock::time_point> limit_;
};

}  // namespace lockstep::supervisor
