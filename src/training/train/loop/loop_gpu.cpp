// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of Loop: CUDA graphs and the measurement of GPU time.
#include <algorithm>
#include <fmt/format.h>

#include "common/base/log.h"
#include "training/comm/call_record.h"
#include "training/optim/fused.h"
#include "training/train/loop/loop.h"

namespace lockstep::train {

// Returns why this training cannot use a CUDA graph; empty: it can. The common cause is host code
// in the middle of a step, which a graph would not execute again.
std::string Loop::reason_against_graph() const {
  const std::string strategy(strategy_->name());
  if (session_.flags.cuda_graph == "off") {
    return "--cuda-graph off";
  }
  if (!has_graphs()) {
    return "CUDA graphs require a build with CUDA and libtorch 2.6 or later";
  }
  if (session_.communicator->size() > 1) {
    return "workers communicate through the host during a step";
  }
  if (strategy != "single" && strategy != "mirrored") {
    return fmt::format("-s {} schedules its communication on the host", strategy);
  }
  if (options_.accumulate > 1) {
    return "--accumulate splits a step into several parts";
  }
  if (loss_scaler_.is_on()) {
    return "the loss scale is computed on the host";
  }
  if (session_.flags.recompute) {
    return "--recompute restores random number generators on the host";
  }
  if (dynamic_cast<optim::FusedOptimizer*>(&task_.optimizer) == nullptr) {
    return "the optimizer must be sgd, adam or adamw from make_optimizer()";
  }
  return "";
}

void Loop::record_graph(const Batch& batch) {
  std::string reason;
  const auto begun = Clock::now();
  steps_before_graph_ = -1;
  graph_ = record_step({.strategy = *strategy_,
                        .model = task_.model,
                        .optimizer = task_.optimizer,
                        .loss = task_.loss,
                        .step = {.clip_norm = options_.clip_norm, .wants_norm = false}},
                       batch,
                       reason);
  if (graph_ != nullptr) {
    log::debug("recorded a CUDA graph of a step in {:.0f} ms",
               std::chrono::duration<double, std::milli>(Clock::now() - begun).count());
  } else {
    progress_.say("no CUDA graph: " + reason);
  }
}

void Loop::set_waits_part(comm::StreamWaits::Part part) {
  if (const auto& waits = session_.communicator->call_record()->stream_waits()) {
    waits->set_part(part);
  }
}

void Loop::mark_step_begun() {
  if (stream_times_) {
    stream_times_->begin_step();
  }
  set_waits_part(comm::StreamWaits::Gradients);
}

void Loop::mark_update_begun() {
  if (stream_times_) {
    stream_times_->begin_update();
  }
  set_waits_part(comm::StreamWaits::Update);
}

void Loop::mark_step_ended() {
  if (stream_times_) {
    stream_times_->end_step();
  }
  set_waits_part(comm::StreamWaits::Elsewhere);
}

// On a GPU, the times of the host mean little because the host only queues work. The times between
// marks in the stream are used instead. The GPU counts as waiting for data for at most as long as
// the host waited for batches: it may also be idle for other reasons.
Loop::TimeSplit Loop::take_split(bool are_all_done) {
  TimeSplit split{.data = phase_times_.take_seconds(PhaseTimes::Data),
                  .compute = phase_times_.take_seconds(PhaseTimes::ForwardBackward),
                  .update = phase_times_.take_seconds(PhaseTimes::Step),
                  .exchange = phase_times_.take_seconds(PhaseTimes::Exchange)};
  const Communicator& gang = *session_.communicator;
  if (session_.device.is_cuda() && gang.size() > 1) {
    split.exchange.reset();  // includes waiting for the GPU before each copy to the host
  }
  if (!stream_times_) {
    return split;
  }
  const StreamTimes::Seconds times = stream_times_->take(are_all_done);
  split.data = std::min(split.data, times.idle);
  split.compute = times.compute;
  split.update = times.update;
  if (const auto& waits = gang.call_record()->stream_waits()) {
    const comm::StreamWaits::Seconds waited = waits->take();
    split.compute = std::max(0.0, split.compute - waited[comm::StreamWaits::Gradients]);
    split.update = std::max(0.0, split.update - waited[comm::StreamWaits::Update]);
    split.exchange = waited[comm::StreamWaits::Gradients] + waited[comm::StreamWaits::Update];
  }
  return split;
}

}  // namespace lockstep::train
