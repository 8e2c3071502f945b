// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "training/data/check_index.h"

namespace lockstep {
namespace {

class ConcatDataset : public Dataset {
 public:
  explicit ConcatDataset(std::vector<DatasetPtr> parts) : parts_(std::move(parts)) {
    for (const DatasetPtr& part : parts_) {
      begins_.push_back(size_);
      size_ += part->size();
    }
  }

  int64_t size() const override { return size_; }
  torch::Device device() const override {
    return parts_.empty() ? torch::Device(torch::kCPU) : parts_.front()->device();
  }

  std::vector<int64_t> files() const override {
    std::vector<int64_t> all;
    for (size_t i = 0; i < parts_.size(); ++i) {
      for (const int64_t file : parts_[i]->files()) {
        all.push_back(begins_[i] + file);
      }
    }
    return all;
  }

  Example example(int64_t index) const override {
    const size_t part = part_of(index);
    return parts_[part]->example(index - begins_[part]);
  }

  // Reads one batch per data set, then restores the requested order.
  Batch batch(std::span<const int64_t> indices) const override {
    std::vector<std::vector<int64_t>> theirs(parts_.size());
    std::vector<std::vector<int64_t>> places(parts_.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      const size_t part = part_of(indices[i]);
      theirs[part].push_back(indices[i] - begins_[part]);
      places[part].push_back(static_cast<int64_t>(i));
    }
    Pieces pieces;
    for (size_t part = 0; part < parts_.size(); ++part) {
      if (!theirs[part].empty()) {
        pieces.add(*parts_[part], theirs[part], places[part]);
      }
    }
    return pieces.put_together();
  }

  DatasetPtr in_epoch(int64_t epoch) const override {
    std::vector<DatasetPtr> parts = parts_;
    bool differs = false;
    for (DatasetPtr& part : parts) {
      if (DatasetPtr then = part->in_epoch(epoch)) {
        part = std::move(then);
        differs = true;
      }
    }
    return differs ? concat(std::move(parts)) : nullptr;
  }

 private:
  // Parts of a batch, with the position of each sample in the batch.
  struct Pieces {
    std::vector<torch::Tensor> inputs;
    std::vector<torch::Tensor> targets;
    std::vector<int64_t> order;

    void add(const Dataset& from,
             std::span<const int64_t> indices,
             std::span<const int64_t> places) {
      Batch some = from.batch(indices);
      const bool is_whole = some.size() == static_cast<int64_t>(indices.size());
      if (!is_whole && indices.size() > 1) {
        // The data set omitted samples. Single reads show which ones.
        for (size_t i = 0; i < indices.size(); ++i) {
          add(from, indices.subspan(i, 1), places.subspan(i, 1));
        }
      } else if (is_whole) {
        inputs.push_back(std::move(some.input));
        targets.push_back(std::move(some.target));
        order.insert(order.end(), places.begin(), places.end());
      }
    }

    Batch put_together() const {
      if (inputs.size() < 2) {
        return inputs.empty() ? Batch{} : Batch{inputs.front(), targets.front()};
      }
      // order[i] is the position in the batch of row i; its inverse permutation restores the order.
      const torch::Tensor back = torch::tensor(order, torch::kInt64).argsort();
      const torch::Tensor input = torch::cat(inputs);
      return {input.index_select(0, back.to(input.device())),
              torch::cat(targets).index_select(0, back.to(targets.front().device()))};
    }
  };

  // No part is empty (concat() checks it), so begins_ has no equal elements and the part is unique.
  size_t part_of(int64_t index) const {
    data::check_index(index, size_);
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), index);
    return static_cast<size_t>(after - begins_.begin()) - 1;
  }

  std::vector<DatasetPtr> parts_;
  std::vector<int64_t> begins_;
  int64_t size_ = 0;
};

}  // namespace

DatasetPtr concat(std::vector<DatasetPtr> datasets) {
  const bool has_empty = std::any_of(
      datasets.begin(), datasets.end(), [](const DatasetPtr& each) { return each->size() == 0; });
  if (datasets.empty() || has_empty) {
    throw Error(ExitCode::Usage, "cannot concatenate data sets: none given, or one is empty")
        .fact("data sets", std::to_string(datasets.size()));
  }
  return std::make_shared<ConcatDataset>(std::move(datasets));
}

}  // namespace lockstep
