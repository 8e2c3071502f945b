// SPDX-License-Identifier: Apache-2.0
#include "lockstep/dataset.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <vector>

#include "common/base/random.h"
#include "lockstep/error.h"
#include "training/data/check_index.h"

namespace lockstep {

Batch Dataset::batch(std::span<const int64_t> indices) const {
  if (indices.empty()) {
    return {};
  }
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;
  inputs.reserve(indices.size());
  targets.reserve(indices.size());
  for (const int64_t index : indices) {
    Example one = example(index);
    inputs.push_back(std::move(one.input));
    targets.push_back(std::move(one.target));
  }
  return {torch::stack(inputs), torch::stack(targets)};
}

namespace {

class TensorDataset : public Dataset {
 public:
  TensorDataset(torch::Tensor input, torch::Tensor target)
      : input_(std::move(input)), target_(std::move(target)) {}

  int64_t size() const override { return input_.size(0); }
  torch::Device device() const override { return input_.device(); }

  Example example(int64_t index) const override {
    data::check_index(index, size());
    return {input_[index], target_[index]};
  }

  Batch batch(std::span<const int64_t> indices) const override {
    for (const int64_t index : indices) {
      data::check_index(index, size());
    }
    // index_select() on a GPU does not check its indices on the host, hence the loop above.
    const torch::Tensor rows =
        torch::tensor(c10::ArrayRef<int64_t>(indices.data(), indices.size()), torch::kInt64)
            .to(input_.device(), /*non_blocking=*/true);
    return {input_.index_select(0, rows), target_.index_select(0, rows)};
  }

 private:
  torch::Tensor input_;
  torch::Tensor target_;
};

// The samples of another data set in memory. in_epoch() reads them again from that data set.
class KeptDataset : public TensorDataset {
 public:
  KeptDataset(DatasetPtr base, torch::Tensor input, torch::Tensor target)
      : TensorDataset(std::move(input), std::move(target)), base_(std::move(base)) {}

  DatasetPtr in_epoch(int64_t epoch) const override {
    return on_device(base_->in_epoch(epoch), device());
  }

 private:
  DatasetPtr base_;
};

// The wrappers below forward in_epoch(): a data set with random augmentation at the bottom must see
// the epoch through all of them. nullptr means that nothing below depends on the epoch.
class MappedDataset : public Dataset {
 public:
  MappedDataset(DatasetPtr base, std::function<Example(Example)> change)
      : base_(std::move(base)), change_(std::move(change)) {}

  int64_t size() const override { return base_->size(); }
  torch::Device device() const override { return base_->device(); }
  std::vector<int64_t> files() const override { return base_->files(); }
  Example example(int64_t index) const override { return change_(base_->example(index)); }

  DatasetPtr in_epoch(int64_t epoch) const override {
    DatasetPtr base = base_->in_epoch(epoch);
    return base == nullptr ? nullptr : map(std::move(base), change_);
  }

 private:
  DatasetPtr base_;
  std::function<Example(Example)> change_;
};

class BatchMappedDataset : public Dataset {
 public:
  BatchMappedDataset(DatasetPtr base, std::function<Batch(Batch)> change)
      : base_(std::move(base)), change_(std::move(change)) {}

  int64_t size() const override { return base_->size(); }
  torch::Device device() const override { return base_->device(); }
  std::vector<int64_t> files() const override { return base_->files(); }

  Example example(int64_t index) const override {
    const Batch one = batch(std::span(&index, 1));
    if (one.size() == 0) {
      return base_->example(index);  // omitted from the batch; throws the reason
    }
    return {one.input[0], one.target[0]};
  }

  Batch batch(std::span<const int64_t> indices) const override {
    Batch given = base_->batch(indices);
    const int64_t count = given.size();
    if (count == 0) {
      return given;
    }
    Batch changed = change_(std::move(given));
    if (changed.size() != count) {
      throw Error(ExitCode::Usage, "cannot map batches: the function changed the batch size")
          .fact("expected", std::to_string(count))
          .fact("found", std::to_string(changed.size()));
    }
    return changed;
  }

  DatasetPtr in_epoch(int64_t epoch) const override {
    DatasetPtr base = base_->in_epoch(epoch);
    return base == nullptr ? nullptr : map_batches(std::move(base), change_);
  }

 private:
  DatasetPtr base_;
  std::function<Batch(Batch)> change_;
};

// Samples of another data set under new numbers. A batch remains a single batch of the base, which
// may read it in one piece (TensorDataset, image files).
class ReindexedDataset : public Dataset {
 public:
  explicit ReindexedDataset(DatasetPtr base) : base_(std::move(base)) {}

  torch::Device device() const override { return base_->device(); }

  Example example(int64_t index) const override {
    data::check_index(index, size());
    return base_->example(base_index(index));
  }

  Batch batch(std::span<const int64_t> indices) const override {
    std::vector<int64_t> theirs;
    theirs.reserve(indices.size());
    for (const int64_t index : indices) {
      data::check_index(index, size());
      theirs.push_back(base_index(index));
    }
    return base_->batch(theirs);
  }

  DatasetPtr in_epoch(int64_t epoch) const override {
    DatasetPtr base = base_->in_epoch(epoch);
    return base == nullptr ? nullptr : with_base(std::move(base));
  }

 protected:
  const Dataset& base() const { return *base_; }

 private:
  virtual int64_t base_index(int64_t index) const = 0;
  virtual DatasetPtr with_base(
      DatasetPtr base) const = 0;  // the same selection from another data set

  DatasetPtr base_;
};

class StridedDataset : public ReindexedDataset {
 public:
  StridedDataset(DatasetPtr base, int64_t first, int64_t stride, int64_t size)
      : ReindexedDataset(std::move(base)), first_(first), stride_(stride), size_(size) {}

  int64_t size() const override { return size_; }

  // The first samples come from the first files. Every n-th sample comes from all files.
  std::vector<int64_t> files() const override {
    if (first_ != 0 || stride_ != 1) {
      return {0};
    }
    std::vector<int64_t> all = base().files();
    std::erase_if(all, [this](int64_t file) { return file > 0 && file >= size_; });
    return all;
  }

 private:
  int64_t base_index(int64_t index) const override { return first_ + index * stride_; }
  DatasetPtr with_base(DatasetPtr base) const override {
    return std::make_shared<StridedDataset>(std::move(base), first_, stride_, size_);
  }

  int64_t first_;
  int64_t stride_;
  int64_t size_;
};

// files() is that of the base class, one file: after a shuffle every file has samples everywhere.
class ShuffledDataset : public ReindexedDataset {
 public:
  using Order = std::shared_ptr<const std::vector<int64_t>>;

  ShuffledDataset(DatasetPtr base, Order order)
      : ReindexedDataset(std::move(base)), order_(std::move(order)) {}

  int64_t size() const override { return static_cast<int64_t>(order_->size()); }

 private:
  int64_t base_index(int64_t index) const override { return (*order_)[static_cast<size_t>(index)]; }
  DatasetPtr with_base(DatasetPtr base) const override {
    return std::make_shared<ShuffledDataset>(std::move(base), order_);
  }

  Order order_;
};

// Differs from the streams of DistributedSampler, which are the epochs from 0 on.
constexpr uint64_t kShuffleStream = ~uint64_t{0};

int64_t rows(const torch::Tensor& tensor) {
  return tensor.defined() && tensor.dim() > 0 ? tensor.size(0) : 0;
}

}  // namespace

DatasetPtr tensors(torch::Tensor input, torch::Tensor target) {
  if (rows(input) < 1 || rows(input) != rows(target)) {
    throw Error(
        ExitCode::Usage,
        "cannot make a data set of tensors that are empty or have different numbers of rows")
        .fact("input", std::to_string(rows(input)))
        .fact("target", std::to_string(rows(target)));
  }
  return std::make_shared<TensorDataset>(std::move(input), std::move(target));
}

DatasetPtr on_device(DatasetPtr dataset, torch::Device device) {
  if (dataset == nullptr || dataset->device() == device) {
    return dataset;
  }
  // In parts, because the intermediate data of a batch can be larger than the batch.
  constexpr int64_t kPart = 4096;
  std::vector<torch::Tensor> inputs;
  std::vector<torch::Tensor> targets;
  for (int64_t begin = 0; begin < dataset->size(); begin += kPart) {
    std::vector<int64_t> indices;
    for (int64_t i = begin; i < std::min(begin + kPart, dataset->size()); ++i) {
      indices.push_back(i);
    }
    const Batch some = dataset->batch(indices);
    if (some.size() > 0) {
      const Batch there = some.to(device);
      inputs.push_back(there.input);
      targets.push_back(there.target);
    }
  }
  if (inputs.empty()) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot store samples on {}: the data set is empty", device.str()));
  }
  return std::make_shared<KeptDataset>(std::move(dataset), torch::cat(inputs), torch::cat(targets));
}

DatasetPtr map(DatasetPtr dataset, std::function<Example(Example)> change) {
  return std::make_shared<MappedDataset>(std::move(dataset), std::move(change));
}

DatasetPtr map_batches(DatasetPtr dataset, std::function<Batch(Batch)> change) {
  return std::make_shared<BatchMappedDataset>(std::move(dataset), std::move(change));
}

DatasetPtr take(DatasetPtr dataset, int64_t count) {
  if (count < 0 || count > dataset->size()) {
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot take {} samples: the data set has {} samples", count, dataset->size()));
  }
  return std::make_shared<StridedDataset>(std::move(dataset), 0, 1, count);
}

DatasetPtr shard(DatasetPtr dataset, int64_t index, int64_t count) {
  if (index < 0 || index >= count) {
    throw Error(ExitCode::Usage,
                fmt::format("invalid part {} of {}: parts are numbered from 0", index, count));
  }
  // The number of samples index, index + count, ... below size.
  const int64_t size = (dataset->size() - index + count - 1) / count;
  return std::make_shared<StridedDataset>(std::move(dataset), index, count, size);
}

DatasetPtr shuffle(DatasetPtr dataset, uint64_t seed) {
  // Shared by the copies for each epoch: the order is drawn once and does not change between
  // epochs.
  auto order = std::make_shared<const std::vector<int64_t>>(
      permutation(dataset->size(), Random(seed, kShuffleStream)));
  return std::make_shared<ShuffledDataset>(std::move(dataset), std::move(order));
}

}  // namespace lockstep
