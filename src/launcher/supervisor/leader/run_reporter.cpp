// SPDX-License-Identifier: Apache-2.0
//
// RUN/state.json must also describe a run whose launcher was killed and could not write an end
// state. Two fields serve this: `updated`, a heartbeat, and `launcher`, the identity of this
// process.
#include "launcher/supervisor/leader/run_reporter.h"

#include "common/base/clock.h"
#include "common/os/host.h"
#include "common/os/process_identity.h"
#include "launcher/plan/node_spec.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

std::vector<contract::RunNode> nodes_of(const plan::AttemptLayout& layout) {
  std::vector<contract::RunNode> nodes;
  nodes.reserve(layout.slots.size());
  for (const plan::NodeSlot& slot : layout.slots) {
    nodes.push_back({.name = slot.name,
                     .workers = slot.workers,
                     .interface = slot.interface,
                     .address = slot.address});
  }
  return nodes;
}

}  // namespace

// Readers see fewer phases than the Leader has. A requested stop wins over the exit code, which is
// that of the workers.
contract::RunPhase phase_of(const Leader& leader) {
  switch (leader.phase()) {
    case Leader::Phase::Gathering:
    case Leader::Phase::Probing:
    case Leader::Phase::Preparing:
      return leader.attempt() == 0 ? contract::RunPhase::Starting : contract::RunPhase::Restarting;
    case Leader::Phase::Running:
      return contract::RunPhase::Running;
    case Leader::Phase::Stopping:
    case Leader::Phase::Explaining:
      return contract::RunPhase::Stopping;
    case Leader::Phase::Over:
      break;
  }
  if (leader.is_cancelled()) {
    return contract::RunPhase::Cancelled;
  }
  return leader.exit_code() == 0 ? contract::RunPhase::Done : contract::RunPhase::Failed;
}

RunReporter::RunReporter(const plan::LaunchPlan& plan,
                         const os::Environment& environment,
                         WriteFaults& faults)
    : directory_(plan.run_directory.value), faults_(faults) {
  state_.run_id = plan.run_id;
  state_.host = os::host_name();
  state_.launcher = os::own_identity();
  state_.grace_seconds = plan.grace_seconds.value;
  state_.started = wall_time();
  state_.slurm_job = os::find_variable(environment, "SLURM_JOB_ID").value_or("");
}

// Called in every turn of the event loop, so the common case must be cheap: two comparisons. A
// failed write is not retried before the next change or heartbeat.
void RunReporter::report(const Leader& leader, Time now) {
  const contract::RunPhase phase = phase_of(leader);
  const bool is_change = !last_ || state_.phase != phase || state_.attempt != leader.attempt();
  const bool is_due =
      last_ && now - *last_ >= std::chrono::duration<double>(contract::kHeartbeatSeconds);
  if (!is_change && !is_due) {
    return;
  }
  last_ = now;
  state_.updated = wall_time();
  if (is_change) {
    state_.phase = phase;
    state_.attempt = leader.attempt();
    state_.nodes = nodes_of(leader.layout());
    state_.world_size = plan::world_size(leader.layout());
  }
  if (contract::is_end(phase)) {
    state_.ended = state_.updated;
    state_.exit_code = leader.exit_code();
  }
  write();
}

void RunReporter::report_requeued() {
  state_.phase = contract::RunPhase::Requeued;
  write();
}

void RunReporter::write() {
  try {
    contract::write_state(directory_, state_);
  } catch (const Error& error) {
    faults_.take(error.sentence());
  }
}

}  // namespace lockstep::supervisor
