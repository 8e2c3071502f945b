// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>

#include "os/process.h"

namespace lockstep::agent {

// Why a gang ended, from the exits of its workers and the signals that came: pure.
//
// The first failure wins. Workers that the agent stopped because of it are not to blame; but a peer
// often sees a lost connection before the agent sees the death that caused it, so a death that
// nobody can have asked for takes the blame from a mere exit code.
class Verdict {
 public:
  // Worker `rank` has ended; `sent` is the strongest signal that the agent had sent it before, or
  // 0.
  void record_exit(int rank, os::ExitStatus status, int sent);

  // The user, or the system, asks to stop: SIGINT, SIGTERM ...
  void record_stop(int signal);

  // The rank that failed first, if one did.
  std::optional<int> cause() const { return cause_; }

  // Whether the gang is to be stopped.
  bool is_over() const { return cause_.has_value() || stop_ != 0; }

  // The exit code of `lockstep run`.
  int exit_code() const;

 private:
  std::map<int, os::ExitStatus> statuses_;
  std::optional<int> cause_;
  int stop_ = 0;
};

}  // namespace lockstep::agent
