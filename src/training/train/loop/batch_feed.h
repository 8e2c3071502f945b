// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "lockstep/loader.h"
#include "lockstep/trainer.h"
#include "training/comm/side_stream.h"
#include "training/train/loop/training_position.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Prepares the batches of this worker and copies them to its device.
class BatchFeed {
 public:
  // `session` and `options` must outlive this. Throws an Error if the samples cannot be distributed
  // (DistributedSampler).
  BatchFeed(const SessionParts& session, const TrainerOptions& options, DatasetPtr train);

  const DistributedSampler& sampler() const { return sampler_; }
  int64_t samples() const { return train_->size(); }

  // Creates the stream that copies batches to a GPU. Call it once, before the first to_device().
  void open_stream();

  // Uses the current seed of the options.
  void reseed();

  void set_epoch(int64_t epoch) { sampler_.set_epoch(epoch); }

  // Returns the batches of the current epoch from `first_step` on.
  Loader load(int64_t first_step);

  // Starts to prepare the next epoch when this one has fewer batches left than there are threads,
  // so that idle threads have work and the next epoch does not start with a wait.
  void load_ahead(const TrainingPosition& position);

  // Copies a batch from host memory on a separate stream, while the GPU still computes the previous
  // step.
  Batch to_device(const Batch& batch);

 private:
  Loader make_loader(const DistributedSampler& sampler, int64_t first_step) const;

  const SessionParts& session_;
  const TrainerOptions& options_;
  DatasetPtr train_;
  DistributedSampler sampler_;
  std::optional<Loader> ahead_;              // of the next epoch
  std::optional<comm::SideStream> arrival_;  // copies batches to the GPU
};

}  // namespace lockstep::train
