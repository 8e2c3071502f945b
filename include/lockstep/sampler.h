// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

// What becomes of the samples that do not fill the last global batch of an epoch. There is no
// default: one choice leaves samples out, the other shows some of them twice.
enum class Tail {
  Drop = 1,  // the epoch ends before them
  Pad = 2,   // the batch is filled with samples from the start of the epoch's order
};

// How samples are shared out among the workers.
enum class Sharding {
  Data,  // every global batch is cut among all; the gang sees the same samples whatever its size
  File,  // worker r of W has files r, r + W, r + 2 W ..., and goes through them on its own
  Off,   // every worker goes through all samples, in an order of its own
};

struct SamplerOptions {
  int64_t dataset_size;
  int64_t global_batch;  // samples of all workers together in one step
  int rank;
  int world_size;
  Tail tail;
  bool shuffle = true;  // false: every epoch goes through the samples in their own order
  uint64_t seed = 0;    // of the order, together with the epoch
  Sharding sharding = Sharding::Data;
  std::vector<int64_t> files = {};  // where each begins, for Sharding::File; Dataset::files()
};

// Which samples this worker takes in each step of an epoch.
//
// The order of an epoch depends on seed, epoch and data set size alone: it is the same for every
// rank, world size, platform and libtorch. With G samples to a global batch and W workers, step k
// is order[k * G, (k + 1) * G), and rank r takes of it the samples [G * r / W, G * (r + 1) / W). So
// the gang as a whole sees the same samples in the same step, however many workers it has.
//
// That is Sharding::Data. Under the others rank r takes as many samples in a step, but from an
// order of its own: of its files, or of the whole data set. An epoch then has as many steps as all
// workers can fill (Tail::Drop) or as the longest needs (Tail::Pad), the same on every rank.
//
// Cheap to copy. Const calls may come from several threads; set_epoch() must not run beside them.
class DistributedSampler {
 public:
  // Starts in epoch 0. Throws an Error for a rank outside the gang, more workers than samples,
  // a global batch smaller than the gang, fewer files than workers, or nothing left to train on
  // with Tail::Drop.
  explicit DistributedSampler(const SamplerOptions& options);

  // Goes over to the order of `epoch`, from 0. Copies made before keep theirs.
  void set_epoch(int64_t epoch);

  int64_t epoch() const { return epoch_; }

  Sharding sharding() const { return options_.sharding; }

  // Steps in an epoch, the same on every rank.
  int64_t steps() const { return steps_; }

  // This rank's samples of `step`, 0 <= step < steps().
  std::vector<int64_t> indices(int64_t step) const;

  // Samples of all workers together in `step`; what a sum of losses is divided by.
  int64_t global_size(int64_t step) const;

 private:
  SamplerOptions options_;
  int64_t epoch_ = 0;
  int64_t steps_ = 0;
  std::shared_ptr<const std::vector<int64_t>> own_;    // this rank's samples; null: all
  std::shared_ptr<const std::vector<int64_t>> order_;  // null: the samples' own order
};

struct EvaluationOptions {
  int64_t dataset_size;
  int64_t batch;  // samples of this worker in one step, at most
  int rank;
  int world_size;
};

// Which samples this worker evaluates: over the gang every sample exactly once, none twice.
//
// With N samples and W workers rank r takes [N * r / W, N * (r + 1) / W), in order. Ranks may
// therefore have one step more or less than others, or none at all: add up on each rank and
// all-reduce the sums after the loop, never inside it.
class EvaluationSampler {
 public:
  // Throws an Error for a rank outside the gang, no samples or a batch below one.
  explicit EvaluationSampler(const EvaluationOptions& options);

  // How many samples this rank evaluates.
  int64_t size() const { return end_ - begin_; }

  // Steps of this rank.
  int64_t steps() const;

  // This rank's samples of `step`, 0 <= step < steps().
  std::vector<int64_t> indices(int64_t step) const;

 private:
  int64_t batch_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

}  // namespace lockstep
