// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sampler.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <string>

#include "data/random.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

// The first of `total` things that belong to `rank`, when rank r of W has the things
// [total * r / W, total * (r + 1) / W).
int64_t part_begin(int64_t total, int rank, int world_size) {
  return total * rank / world_size;
}

void require_place(int rank, int world_size) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    throw Error(ExitCode::Usage, "cannot share out samples: no such place in a gang")
        .fact("rank", std::to_string(rank))
        .fact("workers", std::to_string(world_size));
  }
}

void require_step(int64_t step, int64_t steps) {
  if (step < 0 || step >= steps) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot give samples for step {}: there are {} steps", step, steps));
  }
}

void require_samples(const SamplerOptions& options) {
  const auto samples = std::to_string(options.dataset_size);
  const auto workers = std::to_string(options.world_size);
  const auto batch = std::to_string(options.global_batch);
  if (options.dataset_size < 1) {
    throw Error(ExitCode::Usage, "cannot train: the data set has no samples")
        .fact("samples", samples);
  }
  if (options.global_batch < 1) {
    throw Error(ExitCode::Usage, "cannot train with an empty batch")
        .fact("global batch", batch)
        .hint("a batch size of at least 1");
  }
  if (options.dataset_size < options.world_size) {
    throw Error(ExitCode::Usage, "cannot train: more workers than samples")
        .fact("workers", workers)
        .fact("samples", samples)
        .hint(fmt::format("at most {} workers", samples));
  }
  if (options.global_batch < options.world_size) {
    throw Error(ExitCode::Usage, "cannot train: the global batch is smaller than the gang")
        .fact("global batch", batch)
        .fact("workers", workers)
        .hint(fmt::format("a global batch of at least {}, or at most {} workers", workers, batch));
  }
  if (options.tail == Tail::Drop && options.dataset_size < options.global_batch) {
    throw Error(ExitCode::Usage, "cannot train: the data set does not fill one global batch")
        .fact("samples", samples)
        .fact("global batch", batch)
        .hint(fmt::format("a global batch of at most {}, or pad the last batch", samples));
  }
}

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  require_place(options.rank, options.world_size);
  require_samples(options);
  switch (options.tail) {
    case Tail::Drop:
      steps_ = options.dataset_size / options.global_batch;
      break;
    case Tail::Pad:
      steps_ = (options.dataset_size - 1) / options.global_batch + 1;
      break;
    default:
      throw Error(ExitCode::Usage, "cannot share out samples: no choice made for the last batch")
          .hint("SamplerOptions{.tail = Tail::Drop} or Tail::Pad");
  }
  set_epoch(0);
}

void DistributedSampler::set_epoch(int64_t epoch) {
  if (epoch < 0) {
    throw Error(ExitCode::Usage, fmt::format("cannot go to epoch {}: epochs count from 0", epoch));
  }
  epoch_ = epoch;
  if (options_.shuffle) {
    const data::Random random(options_.seed, static_cast<uint64_t>(epoch));
    order_ = std::make_shared<const std::vector<int64_t>>(
        data::permutation(options_.dataset_size, random));
  }
}

std::vector<int64_t> DistributedSampler::indices(int64_t step) const {
  require_step(step, steps_);
  const int64_t global = options_.global_batch;
  const int64_t begin = step * global + part_begin(global, options_.rank, options_.world_size);
  const int64_t end = step * global + part_begin(global, options_.rank + 1, options_.world_size);
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(end - begin));
  for (int64_t position = begin; position < end; ++position) {
    const int64_t wrapped = position % options_.dataset_size;
    indices.push_back(order_ ? (*order_)[static_cast<size_t>(wrapped)] : wrapped);
  }
  return indices;
}

int64_t DistributedSampler::global_size(int64_t step) const {
  require_step(step, steps_);
  return options_.global_batch;
}

EvaluationSampler::EvaluationSampler(const EvaluationOptions& options) : batch_(options.batch) {
  require_place(options.rank, options.world_size);
  if (options.dataset_size < 1 || options.batch < 1) {
    throw Error(ExitCode::Usage, "cannot evaluate: no samples, or an empty batch")
        .fact("samples", std::to_string(options.dataset_size))
        .fact("batch", std::to_string(options.batch));
  }
  begin_ = part_begin(options.dataset_size, options.rank, options.world_size);
  end_ = part_begin(options.dataset_size, options.rank + 1, options.world_size);
}

int64_t EvaluationSampler::steps() const {
  return (size() + batch_ - 1) / batch_;
}

std::vector<int64_t> EvaluationSampler::indices(int64_t step) const {
  require_step(step, steps());
  const int64_t begin = begin_ + step * batch_;
  const int64_t end = std::min(begin + batch_, end_);
  std::vector<int64_t> indices(static_cast<size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

}  // namespace lockstep
