// SPDX-License-Identifier: Apache-2.0
//
// Loop's part for batches: who makes them, and how they get to the device.
#include <fmt/format.h>

#include "base/text.h"
#include "lockstep/error.h"
#include "os/processors.h"
#include "train/loop.h"

namespace lockstep::train {

// Found out before an epoch is trained, not after.
void Loop::require_samples_to_test() const {
  if (task_.test != nullptr && task_.test->size() == 0) {
    throw Error(ExitCode::Usage, "cannot evaluate: the data set to test on has no samples")
        .fact("to train on", fmt::format("{} samples", format_count(task_.train->size())))
        .hint("--no-validation, or Trainer::fit() without it");
  }
}

Loader Loop::load(const DistributedSampler& sampler, int64_t first_step) const {
  return {task_.train,
          sampler,
          {.first_step = first_step,
           .threads = options_.loader_threads,
           .pin_memory = session_.device.is_cuda()}};
}

// Threads that have no batch of this epoch left to make begin with the next epoch's, so that it
// does not begin with waiting.
void Loop::load_ahead() {
  const int64_t left = sampler_.steps() - step_in_epoch_;
  const int64_t threads =
      options_.loader_threads < 0 ? os::usable_processors() : options_.loader_threads;
  const bool is_last = state_.step + left >= total_steps();
  if (ahead_ || is_last || left > threads + 2 || !task_.train->device().is_cpu()) {
    return;
  }
  DistributedSampler next = sampler_;
  next.set_epoch(state_.epoch + 1);
  ahead_.emplace(load(next, 0));
}

// A batch that comes from main memory arrives while the GPU is still busy with the one before.
Batch Loop::feed(const Batch& batch) {
  if (!arrival_ || batch.input.device() == session_.device) {
    return batch.to(session_.device, true);
  }
  Batch arrived;
  {
    const c10::StreamGuard guard = arrival_->enter();
    arrived = batch.to(session_.device, true);
  }
  arrival_->let_follow();
  // Its memory belongs to the stream that it came by, which must not use it again too early.
  const c10::Stream here =
      c10::impl::VirtualGuardImpl(session_.device.type()).getStream(session_.device);
  arrived.input.record_stream(here);
  arrived.target.record_stream(here);
  return arrived;
}

}  // namespace lockstep::train
