// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>

#include "common/os/process.h"
#include "launcher/supervisor/failure/process_id.h"

namespace lockstep::supervisor {

// Finds the cause of the end of an attempt, from the exits of workers and the requests to stop.
// Without I/O.
//
// The first failure wins. Workers that were stopped because of it are not the cause. There is a
// race: a worker often notices a lost connection, and exits with a code, before the agent notices
// the death of the peer that caused it. A later exit therefore takes the blame if it explains more:
//
//   without a signal from the agent: a death by signal over an exit code, and another exit code
//     over 75, with which a worker reports that it lost a peer
//   after a signal from the agent: SIGKILL that the agent did not send over any exit code, and a
//     crash (SIGSEGV, SIGABRT ...) over exit code 75
class Verdict {
 public:
  // `sent` is the strongest signal that the agent had sent to the process, or 0.
  void record_exit(ProcessId process, os::ExitStatus status, int sent);

  // A request to stop by the user or the system. Exits after it are not failures.
  void record_stop(int signal);

  // The process that failed first, if one did.
  std::optional<ProcessId> cause() const { return cause_; }

  // Whether the cause is an exit with code 75. It often follows from another exit, which may still
  // be reported.
  bool may_have_another_cause() const;

  // Whether the workers must be stopped.
  bool is_over() const { return cause_.has_value() || stop_ != 0; }

  // The exit code of `lockstep run`.
  int exit_code() const;

 private:
  std::map<ProcessId, os::ExitStatus> statuses_;
  std::optional<ProcessId> cause_;
  int stop_ = 0;
};

}  // namespace lockstep::supervisor
