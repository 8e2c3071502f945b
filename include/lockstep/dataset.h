// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <torch/types.h>
#include <vector>

#include "lockstep/batch.h"

namespace lockstep {

class Dataset;
// Shared ownership: a chain of data sets, the threads of a Loader and the program hold it.
using DatasetPtr = std::shared_ptr<const Dataset>;

// A fixed number of samples, numbered from 0. The samples do not change, except from epoch to
// epoch if in_epoch() is overridden.
//
//   class Squares final : public lockstep::Dataset {
//    public:
//     int64_t size() const override { return 1000; }
//     Example example(int64_t i) const override {
//       const auto x = torch::full({1}, static_cast<float>(i));
//       return {.input = x, .target = x * x};
//     }
//   };
//   const auto train = lockstep::take(std::make_shared<Squares>(), 800);
//
// All methods are const and must support concurrent calls from several threads.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Number of samples.
  virtual int64_t size() const = 0;

  // Returns sample `index` without a batch dimension. Throws an Error unless 0 <= index < size().
  virtual Example example(int64_t index) const = 0;

  // Returns the samples `indices`, in that order. An index can occur more than once; without
  // indices, the Batch is empty. The default implementation stacks the results of example();
  // override it if the data set has a faster method.
  //
  // A data set can omit samples that cannot be read if the program allows it
  // (ImageOptions::corrupt). The Batch is then smaller than `indices`.
  virtual Batch batch(std::span<const int64_t> indices) const;

  // The device on which the samples are stored and batches are created.
  virtual torch::Device device() const { return torch::kCPU; }

  // The index of the first sample of each file, in ascending order. A data set that does not know
  // its files reports a single one.
  virtual std::vector<int64_t> files() const { return {0}; }

  // Returns this data set as it is in `epoch` (from 0) if its samples differ from epoch to epoch,
  // as augmented samples do; otherwise null. A Loader calls it with the epoch of its sampler.
  virtual DatasetPtr in_epoch(int64_t /*epoch*/) const { return nullptr; }
};

// The functions below return data sets that hold a reference to their argument, so that the caller
// does not need to keep it. They read samples only when samples are requested, unless stated
// otherwise.

// Returns a data set of the rows of two tensors of the same length. The tensors are not copied.
DatasetPtr tensors(torch::Tensor input, torch::Tensor target);

// Reads all samples of `dataset` once and stores them on `device`, so that batches need no copy
// through host memory. Returns `dataset` itself for the CPU. Use it for data sets that fit into
// the memory of the GPU, such as MNIST. Samples that differ from epoch to epoch are read again in
// each epoch.
DatasetPtr on_device(DatasetPtr dataset, torch::Device device);

// Applies `change` to every sample each time it is requested, on the requesting thread. `change`
// must support concurrent calls.
DatasetPtr map(DatasetPtr dataset, std::function<Example(Example)> change);

// Like map(), for a function of an entire batch, which is much cheaper per sample. `change` must
// treat each sample independently of the others in the batch. A batch throws an Error if `change`
// returns a different number of samples.
DatasetPtr map_batches(DatasetPtr dataset, std::function<Batch(Batch)> change);

// Returns the samples of all data sets, one data set after the other. Each keeps its own files.
// Throws an Error if `datasets` is empty or one of them is empty.
DatasetPtr concat(std::vector<DatasetPtr> datasets);

// Returns the first `count` samples; throws an Error if there are fewer.
DatasetPtr take(DatasetPtr dataset, int64_t count);

// Returns part `index` of `count`: the samples index, index + count, index + 2 * count and so on.
// The parts are disjoint, cover the data set and differ in size by at most one.
DatasetPtr shard(DatasetPtr dataset, int64_t index, int64_t count);

// Returns the samples in a random order that depends only on `seed` and size(), on every platform.
DatasetPtr shuffle(DatasetPtr dataset, uint64_t seed);

}  // namespace lockstep
