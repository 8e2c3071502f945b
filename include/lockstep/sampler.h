// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

// Which samples each worker reads.
//
//   DistributedSampler sampler({.dataset_size = train->size(),
//                               .global_batch = 256,
//                               .rank = session.rank(),
//                               .world_size = session.world_size(),
//                               .tail = Tail::Drop});
//   for (int64_t epoch = 0; epoch < epochs; ++epoch) {
//     sampler.set_epoch(epoch);
//     Loader loader(train, sampler);
//     ...
//   }
namespace lockstep {

// What happens to the samples that do not fill the last global batch of an epoch. There is no
// default because one choice omits samples and the other repeats some of them.
enum class Tail {
  Drop = 1,  // the epoch ends before them
  Pad = 2,   // the batch is filled with samples from the start of the order of the epoch
};

// How samples are distributed among the workers.
enum class Sharding {
  Data,  // every global batch is split; all workers together see the same samples at any world size
  File,  // rank r of W reads the files r, r + W, r + 2 W ... in an order of its own
  Off,   // every worker reads all samples in an order of its own
};

// The options of a DistributedSampler. Fields without a default must be set.
struct SamplerOptions {
  int64_t dataset_size;
  int64_t global_batch;  // samples of all workers in one step
  int rank;
  int world_size;
  Tail tail;
  bool shuffle = true;  // false: every epoch uses the original order of the samples
  uint64_t seed = 0;    // determines the order together with the epoch
  Sharding sharding = Sharding::Data;
  std::vector<int64_t> files = {};  // Dataset::files(); needed for Sharding::File
};

// Selects the samples of this worker in each step of an epoch, for training.
//
// The order of an epoch depends only on seed, epoch and data set size. It is the same for every
// rank, world size, platform and version of libtorch. With a global batch of G samples and W
// workers, step k consists of order[k * G, (k + 1) * G), and rank r takes the samples
// [G * r / W, G * (r + 1) / W) of it. All workers together therefore see the same samples in the
// same step at any world size.
//
// This is Sharding::Data. With the other values, rank r takes the same number of samples in a step,
// but from its own order: of its files, or of the entire data set. The number of steps is then the
// largest that all workers can fill (Tail::Drop), or the number that the worker with most samples
// needs (Tail::Pad). It is the same on every rank.
//
// Copies are cheap and independent. Concurrent const calls are safe; set_epoch() must not run
// concurrently with them.
class DistributedSampler {
 public:
  // Starts in epoch 0. Throws an Error if the rank is outside the world size, if there are more
  // workers than samples or than files, if the global batch is smaller than the world size, or if
  // Tail::Drop leaves no steps.
  explicit DistributedSampler(const SamplerOptions& options);

  // Selects the order of `epoch`, counted from 0. Existing copies keep their epoch. Throws an Error
  // if `epoch` is negative.
  void set_epoch(int64_t epoch);

  // The epoch of the last set_epoch(), or 0.
  int64_t epoch() const { return epoch_; }

  Sharding sharding() const { return options_.sharding; }

  // Number of steps in an epoch; the same on every rank.
  int64_t steps() const { return steps_; }

  // Returns the samples of this rank in `step`. Requires 0 <= step < steps().
  std::vector<int64_t> indices(int64_t step) const;

  // Returns the number of samples of all workers in `step`: the divisor for a sum of losses.
  int64_t global_size(int64_t step) const;

 private:
  SamplerOptions options_;
  int64_t epoch_ = 0;
  int64_t steps_ = 0;
  std::shared_ptr<const std::vector<int64_t>> own_;    // samples of this rank; null: all samples
  std::shared_ptr<const std::vector<int64_t>> order_;  // null: original order
};

// The options of an EvaluationSampler. All fields must be set.
struct EvaluationOptions {
  int64_t dataset_size;
  int64_t batch;  // maximum number of samples of this worker in one step
  int rank;
  int world_size;
};

// Selects the samples that this worker evaluates. All workers together evaluate every sample
// exactly once.
//
// With N samples and W workers, rank r takes [N * r / W, N * (r + 1) / W), in order. The number of
// steps can therefore differ by one between ranks, and can be zero. Accumulate on each rank and
// all-reduce the sums after the loop, never inside it:
//
//   EvaluationSampler sampler({.dataset_size = n, .batch = 100, .rank = r, .world_size = w});
//   Loader loader(test, sampler);
//   Meter meter;
//   while (const auto batch = loader.next()) { meter.add(...); }
//   meter.all_reduce(communicator);
//
// An immutable value; concurrent calls are safe.
class EvaluationSampler {
 public:
  // Throws an Error if the rank is outside the world size, if there are no samples, or if the batch
  // is below 1.
  explicit EvaluationSampler(const EvaluationOptions& options);

  // Number of samples of this rank.
  int64_t size() const { return end_ - begin_; }

  // Number of steps of this rank.
  int64_t steps() const;

  // Returns the samples of this rank in `step`. Requires 0 <= step < steps().
  std::vector<int64_t> indices(int64_t step) const;

 private:
  int64_t batch_ = 0;
  int64_t begin_ = 0;
  int64_t end_ = 0;
};

}  // namespace lockstep
