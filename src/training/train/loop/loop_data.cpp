// SPDX-License-Identifier: Apache-2.0
//
// The data part of Loop: preparation of batches and their copy to the device.
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/os/processors.h"
#include "lockstep/error.h"
#include "training/train/loop/loop.h"

namespace lockstep::train {

// Checked before the training instead of after the first epoch.
void Loop::require_samples_to_test() const {
  if (task_.test != nullptr && task_.test->size() == 0) {
    throw Error(ExitCode::Usage, "cannot evaluate: the test data set has no samples")
        .fact("training", fmt::format("{} samples", format_count(task_.train->size())))
        .hint("--no-validation, or null for the test data set in Trainer::fit()");
  }
}

Loader Loop::load(const DistributedSampler& sampler, int64_t first_step) const {
  return {task_.train,
          sampler,
          {.first_step = first_step,
           .threads = options_.loader_threads,
           .pin_memory = session_.device.is_cuda()}};
}

// Starts to prepare the next epoch when this one has fewer batches left than there are threads, so
// that idle threads have work and the next epoch does not start with a wait.
void Loop::load_ahead() {
  const int64_t left = sampler_.steps() - position_.step_in_epoch;
  const int64_t threads =
      options_.loader_threads < 0 ? os::usable_processors() : options_.loader_threads;
  const bool is_last = position_.state.step + left >= position_.total_steps();
  if (ahead_ || is_last || left > threads + 2 || !task_.train->device().is_cpu()) {
    return;
  }
  DistributedSampler next = sampler_;
  next.set_epoch(position_.state.epoch + 1);
  ahead_.emplace(load(next, 0));
}

// Copies a batch from host memory on a separate stream, while the GPU still computes the previous
// step.
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
  // The memory belongs to the copy stream. Without record_stream(), the allocator could reuse it
  // for the next copy while the compute stream still reads it.
  const c10::Stream here =
      c10::impl::VirtualGuardImpl(session_.device.type()).getStream(session_.device);
  arrived.input.record_stream(here);
  arrived.target.record_stream(here);
  return arrived;
}

}  // namespace lockstep::train
