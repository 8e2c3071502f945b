// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/step_timer.h"

#include <algorithm>

#include "training/comm/call_record.h"

namespace lockstep::train {

// Collectives on a GPU stream measure their own waiting time and add it to the current part.
void StepTimer::set_waits_part(comm::StreamWaits::Part part) const {
  if (const auto& waits = CommunicatorAccess::calls(communicator_).stream_waits()) {
    waits->set_part(part);
  }
}

StepTimer::Clock::duration StepTimer::waited() const {
  return CommunicatorAccess::calls(communicator_).waited();
}

// waited() is the total time that this worker has waited in collectives on the host. Differences of
// it are subtracted from a phase and counted as exchange.
void StepTimer::begin_step() {
  if (stream_times_) {
    stream_times_->begin_step();
  }
  set_waits_part(comm::StreamWaits::Gradients);
  phase_times_.enter(PhaseTimes::ForwardBackward);
  waited_before_phase_ = waited();
}

void StepTimer::begin_update() {
  phase_times_.enter(PhaseTimes::Step);
  if (stream_times_) {
    stream_times_->begin_update();
  }
  set_waits_part(comm::StreamWaits::Update);
  const Clock::duration now = waited();
  phase_times_.count_exchange(PhaseTimes::ForwardBackward, now - waited_before_phase_);
  waited_before_phase_ = now;
}

void StepTimer::end_update() {
  phase_times_.leave();
  phase_times_.count_exchange(PhaseTimes::Step, waited() - waited_before_phase_);
}

void StepTimer::end_step() {
  phase_times_.leave();
  if (stream_times_) {
    stream_times_->end_step();
  }
  set_waits_part(comm::StreamWaits::Elsewhere);
}

void StepTimer::pause() {
  if (stream_times_) {
    stream_times_->pause();
  }
}

// On a GPU, the times of the host mean little because the host only queues work. The times between
// marks in the stream are used instead. The GPU counts as waiting for data for at most as long as
// the host waited for batches: it may also be idle for other reasons.
TimeSplit StepTimer::take(bool are_all_done) {
  TimeSplit split{.data = phase_times_.take_seconds(PhaseTimes::Data),
                  .compute = phase_times_.take_seconds(PhaseTimes::ForwardBackward),
                  .update = phase_times_.take_seconds(PhaseTimes::Step),
                  .checkpoint = phase_times_.take_seconds(PhaseTimes::Checkpoint),
                  .exchange = phase_times_.take_seconds(PhaseTimes::Exchange)};
  if (device_.is_cuda() && communicator_.size() > 1) {
    split.exchange.reset();  // includes waiting for the GPU before each copy to the host
  }
  if (!stream_times_) {
    return split;
  }
  const StreamTimes::Seconds times = stream_times_->take(are_all_done);
  split.data = std::min(split.data, times.idle);
  split.compute = times.compute;
  split.update = times.update;
  if (const auto& waits = CommunicatorAccess::calls(communicator_).stream_waits()) {
    const comm::StreamWaits::Seconds waited = waits->take();
    split.compute = std::max(0.0, split.compute - waited[comm::StreamWaits::Gradients]);
    split.update = std::max(0.0, split.update - waited[comm::StreamWaits::Update]);
    split.exchange = waited[comm::StreamWaits::Gradients] + waited[comm::StreamWaits::Update];
  }
  return split;
}

}  // namespace lockstep::train
