// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/attempt_outcome.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "lockstep/error.h"

namespace lockstep::supervisor {

void AttemptOutcome::clear() {
  verdict_ = Verdict();
  statuses_.clear();
  sent_to_.clear();
  lost_.reset();
}

// sent_to_ is what the report calls "stopped": the worker had received a signal of its agent before
// it ended, regardless of its exit status. A worker that failed at the same moment by itself is not
// counted.
void AttemptOutcome::record_exit(ProcessId process, os::ExitStatus status, int sent) {
  statuses_[process] = status;
  if (sent != 0) {
    sent_to_.insert(process);
  }
  verdict_.record_exit(process, status, sent);
}

// Only the first lost node is reported. Others often follow: a switch or a whole rack has failed.
void AttemptOutcome::record_loss(const std::string& node, const std::string& why) {
  const auto cause = verdict_.cause();
  if (!lost_ && (!cause || statuses_.at(*cause).signal == 0)) {
    lost_ = node;
    lost_why_ = why;
  }
}

int AttemptOutcome::ended_workers() const {
  return static_cast<int>(std::count_if(statuses_.begin(), statuses_.end(), [](const auto& entry) {
    return entry.first.is_worker();
  }));
}

double AttemptOutcome::seconds() const {
  return std::chrono::duration<double>(failed_at_ - began_).count();
}

// Exit code 75 makes an outer requeue (or a script) start the run again: the fault is in the
// cluster, not in the program. Rank -1 matches no worker in count_stopped().
Failure AttemptOutcome::failure_of_loss() const {
  Failure failure;
  failure.who = "node " + *lost_;
  failure.node = *lost_;
  failure.rank = -1;
  failure.status = {.code = static_cast<int>(ExitCode::TryAgain), .signal = 0};
  failure.cause = "is lost: " + lost_why_;
  return failure;
}

Failure AttemptOutcome::failure_without_report(ProcessId process,
                                               const std::string& node,
                                               int attempt) const {
  Failure failure;
  failure.who = process.is_worker() ? fmt::format("rank {}", process.number)
                                    : fmt::format("the fork server of {}", node);
  failure.rank = process.is_worker() ? process.number : 0;
  failure.node = node;
  failure.status = statuses_.at(process);
  failure.attempt = attempt;
  return failure;
}

std::vector<StoppedWorkers> AttemptOutcome::count_stopped(
    const Failure& failure, std::span<const plan::NodeSlot> slots) const {
  std::vector<StoppedWorkers> stopped;
  int rank = 0;
  for (const plan::NodeSlot& slot : slots) {
    StoppedWorkers here{.node = slot.name, .count = 0};
    for (int local = 0; local < slot.workers; ++local, ++rank) {
      const bool was_stopped = sent_to_.contains(ProcessId::worker(rank));
      here.count += rank != failure.rank && was_stopped ? 1 : 0;
    }
    if (here.count > 0) {
      stopped.push_back(std::move(here));
    }
  }
  return stopped;
}

}  // namespace lockstep::supervisor
