// SPDX-License-Identifier: Apache-2.0
//
// Loop's part for GPUs: whether a step is recorded, and where their time goes.
#include <algorithm>
#include <fmt/format.h>

#include "base/log.h"
#include "comm/call_record.h"
#include "optim/fused.h"
#include "train/loop.h"

namespace lockstep::train {

// Why a step is not recorded; empty: it is.
std::string Loop::reason_against_graph() const {
  const std::string strategy(strategy_->name());
  if (session_.flags.cuda_graph == "off") {
    return "--cuda-graph off";
  }
  if (!has_graphs()) {
    return "this build has no CUDA, or a libtorch before 2.6";
  }
  if (session_.communicator->size() > 1) {
    return "several workers talk on the host in the middle of a step";
  }
  if (strategy != "single" && strategy != "mirrored") {
    return fmt::format("-s {} decides on the host what travels when", strategy);
  }
  if (options_.accumulate > 1) {
    return "a step has several parts (--accumulate)";
  }
  if (loss_scaler_.is_on()) {
    return "the loss scale is decided on the host";
  }
  if (session_.flags.recompute) {
    return "--recompute sets random numbers back on the host";
  }
  if (dynamic_cast<optim::FusedOptimizer*>(&task_.optimizer) == nullptr) {
    return "the optimizer is not sgd, adam or adamw from make_optimizer()";
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
    log::debug("recorded a step in {:.0f} ms",
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

// The host only queues what a GPU does, so there the GPU's own times count. It stands still for
// want of a batch where both it does and the host waits for one.
Loop::TimeSplit Loop::take_split(bool are_all_done) {
  TimeSplit split{.data = phase_times_.take_seconds(PhaseTimes::Data),
                  .compute = phase_times_.take_seconds(PhaseTimes::ForwardBackward),
                  .update = phase_times_.take_seconds(PhaseTimes::Step),
                  .exchange = phase_times_.take_seconds(PhaseTimes::Exchange)};
  const Communicator& gang = *session_.communicator;
  if (session_.device.is_cuda() && gang.size() > 1) {
    split.exchange.reset();  // who copies to the host for a message waits for the GPU meanwhile
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
