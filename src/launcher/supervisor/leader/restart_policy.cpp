// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/restart_policy.h"

#include "lockstep/error.h"

namespace lockstep::supervisor {

// Two reasons against a restart in addition to the limit: exit code 64 reports invalid options, and
// an attempt that ends like the one before (same rank, status, last lines, no new checkpoint) would
// fail in the same way until --max-restarts is used up.
RestartPolicy::Answer RestartPolicy::ask(const Failure& failure, long long progress) const {
  if (failure.status == os::ExitStatus{.code = static_cast<int>(ExitCode::Usage), .signal = 0}) {
    return {false, maximum_ > 0 ? "exit code 64 means that a restart does not help" : ""};
  }
  if (used_ >= maximum_) {
    return {};
  }
  // Without output, two failures cannot be recognized as the same.
  const AttemptEnd here{failure.who, failure.status, failure.last_lines, progress};
  if (!here.last_lines.empty() && here == last_end_) {
    return {false, "two attempts failed at the same point without progress"};
  }
  return {true, ""};
}

void RestartPolicy::remember(const Failure& failure, long long progress) {
  last_end_ = AttemptEnd{failure.who, failure.status, failure.last_lines, progress};
}

}  // namespace lockstep::supervisor
