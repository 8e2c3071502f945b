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
// Shared, because a chain of data sets, a loader's threads and the program all hold on to it.
using DatasetPtr = std::shared_ptr<const Dataset>;

// Samples that are numbered from 0 and never change, but from epoch to epoch (in_epoch()).
//
// All calls are const and may come from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;

  // Sample number `index`, without a batch dimension. Throws an Error outside 0 <= index < size().
  virtual Example example(int64_t index) const = 0;

  // The samples `indices`, in that order; a number may come more than once. Stacks example()s;
  // a data set that can do better overrides it. No indices give an empty Batch. Samples that cannot
  // be read may be left out where the program says so (ImageOptions::corrupt).
  virtual Batch batch(std::span<const int64_t> indices) const;

  // Where its samples lie, and batches come from.
  virtual torch::Device device() const { return torch::kCPU; }

  // The first sample of each file that it is read from, in order; one file if it does not know.
  virtual std::vector<int64_t> files() const { return {0}; }

  // This data set as it is in `epoch`, from 0, where samples differ from epoch to epoch, as
  // augmented ones do; null where they do not. A Loader asks for it by its sampler's epoch.
  virtual DatasetPtr in_epoch(int64_t /*epoch*/) const { return nullptr; }
};

// The rows of two tensors of the same length, which it keeps without a copy.
DatasetPtr tensors(torch::Tensor input, torch::Tensor target);

// All samples of `dataset`, read once and kept on `device`, from which batches then come without a
// way through main memory; `dataset` itself for the CPU. For what fits there: MNIST does. Samples
// that differ from epoch to epoch are read again in each.
DatasetPtr on_device(DatasetPtr dataset, torch::Device device);

// Every sample of `dataset` changed by `change`, each time it is asked for, on the thread that
// asks.
DatasetPtr map(DatasetPtr dataset, std::function<Example(Example)> change);

// The same where `change` takes a whole batch at once, which costs far less per sample. It must
// treat each sample alike, whichever others are in the batch, and keep their number.
DatasetPtr map_batches(DatasetPtr dataset, std::function<Batch(Batch)> change);

// The samples of all of them, one data set after the other, each with files of its own.
DatasetPtr concat(std::vector<DatasetPtr> datasets);

// The first `count` samples; throws an Error if there are fewer.
DatasetPtr take(DatasetPtr dataset, int64_t count);

// Part `index` of `count`: samples index, index + count, index + 2 * count ... The parts are
// disjoint, cover the data set and differ in size by at most one.
DatasetPtr shard(DatasetPtr dataset, int64_t index, int64_t count);

// The same samples in an order that depends on `seed` and the size alone, on every platform.
DatasetPtr shuffle(DatasetPtr dataset, uint64_t seed);

}  // namespace lockstep
