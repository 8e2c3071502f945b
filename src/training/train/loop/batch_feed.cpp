// SPDX-License-Identifier: Apache-2.0
//
// From the data set to a batch on the device, ahead of the training step:
//
//   Loader threads     decode and collate, into pinned memory for a GPU
//   arrival stream     copies the next batch while the compute stream still works on the last one
//   compute stream     waits for the copy by an event, never by the host
#include "training/train/loop/batch_feed.h"

#include <utility>

#include "common/os/processors.h"
#include "training/train/session/shares.h"

namespace lockstep::train {

BatchFeed::BatchFeed(const SessionParts& session, const TrainerOptions& options, DatasetPtr train)
    : session_(session),
      options_(options),
      train_(std::move(train)),
      sampler_(sampler_options(session, options, train_)) {}

void BatchFeed::open_stream() {
  arrival_.emplace(session_.device);
}

void BatchFeed::reseed() {
  sampler_ = DistributedSampler(sampler_options(session_, options_, train_));
}

Loader BatchFeed::make_loader(const DistributedSampler& sampler, int64_t first_step) const {
  return {train_,
          sampler,
          {.first_step = first_step,
           .threads = options_.loader_threads,
           .pin_memory = session_.device.is_cuda()}};
}

// The loader of the next epoch may already exist: load_ahead() has created it with first step 0.
// Only the first epoch after a resume begins within an epoch.
Loader BatchFeed::load(int64_t first_step) {
  Loader loader = ahead_ ? std::move(*ahead_) : make_loader(sampler_, first_step);
  ahead_.reset();
  return loader;
}

// Without it, the pipeline would be empty at the beginning of each epoch, and the GPU would wait
// for the first batches. The condition `left > threads + 2` starts the next loader when the current
// one has nothing more to prefetch. Data sets on the device need no loading.
void BatchFeed::load_ahead(const TrainingPosition& position) {
  const int64_t left = sampler_.steps() - position.step_in_epoch;
  const int64_t threads =
      options_.loader_threads < 0 ? os::usable_processors() : options_.loader_threads;
  const bool is_last = position.state.step + left >= position.total_steps();
  if (ahead_ || is_last || left > threads + 2 || !train_->device().is_cpu()) {
    return;
  }
  DistributedSampler next = sampler_;
  next.set_epoch(position.state.epoch + 1);
  ahead_.emplace(make_loader(next, 0));
}

// The copy is asynchronous only from pinned memory, which the Loader provides. let_follow() makes
// the compute stream wait for the copy; the host continues.
Batch BatchFeed::to_device(const Batch& batch) {
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
