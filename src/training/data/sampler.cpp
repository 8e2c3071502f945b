// SPDX-License-Identifier: Apache-2.0
#include "lockstep/sampler.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <numeric>
#include <string>

#include "common/base/random.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

// The first of `total` items of `rank`: rank r of W has the items [total * r / W,
// total * (r + 1) / W). The shares differ by at most one.
int64_t part_begin(int64_t total, int rank, int world_size) {
  return total * rank / world_size;
}

void require_valid_rank(int rank, int world_size) {
  if (world_size < 1 || rank < 0 || rank >= world_size) {
    throw Error(ExitCode::Usage, "cannot distribute samples: invalid rank")
        .fact("rank", std::to_string(rank))
        .fact("world size", std::to_string(world_size));
  }
}

void require_step(int64_t step, int64_t steps) {
  if (step < 0 || step >= steps) {
    throw Error(ExitCode::Usage,
                fmt::format("step {} does not exist: the epoch has {} steps", step, steps));
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
        .hint("use a batch size of at least 1");
  }
  if (options.dataset_size < options.world_size) {
    throw Error(ExitCode::Usage, "cannot train: more workers than samples")
        .fact("workers", workers)
        .fact("samples", samples)
        .hint(fmt::format("use at most {} workers", samples));
  }
  if (options.global_batch < options.world_size) {
    throw Error(ExitCode::Usage, "cannot train: the global batch is smaller than the world size")
        .fact("global batch", batch)
        .fact("workers", workers)
        .hint(fmt::format(
            "use a global batch of at least {}, or at most {} workers", workers, batch));
  }
  if (options.tail == Tail::Drop && options.dataset_size < options.global_batch) {
    throw Error(ExitCode::Usage, "cannot train: the data set does not fill one global batch")
        .fact("samples", samples)
        .fact("global batch", batch)
        .hint(fmt::format("use a global batch of at most {}, or pad the last batch (--tail pad)",
                          samples));
  }
}

void require_files(const SamplerOptions& options) {
  const std::vector<int64_t>& files = options.files;
  const bool in_order =
      !files.empty() && files.front() == 0 && files.back() < options.dataset_size &&
      std::adjacent_find(files.begin(), files.end(), std::greater_equal<>()) == files.end();
  if (!in_order) {
    throw Error(ExitCode::Usage, "cannot distribute files: invalid file boundaries of the data set")
        .fact("expected", "ascending sample numbers, the first 0")
        .hint("--auto-shard data");
  }
  if (static_cast<int>(files.size()) < options.world_size) {
    throw Error(ExitCode::Usage, "cannot distribute files: fewer files than workers")
        .fact("files", std::to_string(files.size()), "data set")
        .fact("workers", std::to_string(options.world_size))
        .hint("--auto-shard data");
  }
}

// Rank r of W gets the files r, r + W, r + 2 W, ...
std::vector<int64_t> samples_of_files(const SamplerOptions& options, int rank) {
  std::vector<int64_t> samples;
  for (size_t file = static_cast<size_t>(rank); file < options.files.size();
       file += static_cast<size_t>(options.world_size)) {
    const int64_t end =
        file + 1 < options.files.size() ? options.files[file + 1] : options.dataset_size;
    for (int64_t sample = options.files[file]; sample < end; ++sample) {
      samples.push_back(sample);
    }
  }
  return samples;
}

int64_t steps_for(int64_t samples, int64_t batch, Tail tail) {
  return tail == Tail::Drop ? samples / batch : (samples - 1) / batch + 1;
}

// The number of steps for shardings in which the ranks have different numbers of samples: with
// Tail::Drop the steps that all workers can fill, otherwise those of the longest share. Every rank
// computes it for all ranks, without communication; a rank with more steps than the others would
// wait in a collective forever.
int64_t common_steps(const SamplerOptions& options) {
  int64_t steps = -1;
  for (int rank = 0; rank < options.world_size; ++rank) {
    const int64_t batch = part_begin(options.global_batch, rank + 1, options.world_size) -
                          part_begin(options.global_batch, rank, options.world_size);
    const int64_t samples = options.sharding == Sharding::Off
                                ? options.dataset_size
                                : static_cast<int64_t>(samples_of_files(options, rank).size());
    const int64_t mine = steps_for(samples, batch, options.tail);
    steps = steps < 0                    ? mine
            : options.tail == Tail::Drop ? std::min(steps, mine)
                                         : std::max(steps, mine);
  }
  if (steps == 0) {
    throw Error(ExitCode::Usage,
                "cannot train: the files of a worker do not fill its share of a batch")
        .fact("global batch", std::to_string(options.global_batch))
        .hint("use a smaller batch, --tail pad, or --auto-shard data");
  }
  return steps;
}

}  // namespace

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  require_valid_rank(options.rank, options.world_size);
  require_samples(options);
  if (options.tail != Tail::Drop && options.tail != Tail::Pad) {
    throw Error(ExitCode::Usage, "cannot distribute samples: Tail is not set")
        .hint("SamplerOptions{.tail = Tail::Drop}, or Tail::Pad");
  }
  switch (options.sharding) {
    case Sharding::Data:
      steps_ = steps_for(options.dataset_size, options.global_batch, options.tail);
      break;
    case Sharding::File:
      require_files(options);
      own_ = std::make_shared<const std::vector<int64_t>>(samples_of_files(options, options.rank));
      steps_ = common_steps(options);
      break;
    case Sharding::Off:
      steps_ = common_steps(options);
      break;
  }
  options_.files.clear();  // no longer needed; keeps copies of the sampler small
  set_epoch(0);
}

void DistributedSampler::set_epoch(int64_t epoch) {
  if (epoch < 0) {
    throw Error(ExitCode::Usage,
                fmt::format("invalid epoch {}: epochs are numbered from 0", epoch));
  }
  epoch_ = epoch;
  if (!options_.shuffle) {
    order_ = own_;
    return;
  }
  // With Sharding::Data the order must be equal on all ranks: each takes its part of the same
  // global batch. With a separate order per rank, each needs its own seed, far from typical user
  // seeds.
  const uint64_t seed =
      options_.sharding == Sharding::Data
          ? options_.seed
          : options_.seed + (static_cast<uint64_t>(options_.rank) + 1) * 0x9e3779b97f4a7c15U;
  const Random random(seed, static_cast<uint64_t>(epoch));
  const int64_t samples = own_ ? static_cast<int64_t>(own_->size()) : options_.dataset_size;
  std::vector<int64_t> order = permutation(samples, random);
  if (own_) {
    for (int64_t& each : order) {
      each = (*own_)[static_cast<size_t>(each)];
    }
  }
  order_ = std::make_shared<const std::vector<int64_t>>(std::move(order));
}

std::vector<int64_t> DistributedSampler::indices(int64_t step) const {
  require_step(step, steps_);
  // Step k of the order, drawn for a global batch of 8 and 3 ranks:
  //
  //   Data:        order        | . . . . . . . . | . . . . . . . . |   of the data set
  //                             | r0  | r1  | r2  | r0  | r1  | r2  |   2, 3 and 3 samples
  //                             |<--- step 0 ---->|<--- step 1 ---->|
  //   File, Off:   order        | . . | . . | . . |                     of this rank alone
  //                             | k=0 | k=1 | k=2 |
  const int64_t global = options_.global_batch;
  int64_t begin = part_begin(global, options_.rank, options_.world_size);
  int64_t end = part_begin(global, options_.rank + 1, options_.world_size);
  const int64_t before = options_.sharding == Sharding::Data ? global : end - begin;
  if (options_.sharding != Sharding::Data) {
    end -= begin;
    begin = 0;
  }
  begin += step * before;
  end += step * before;
  const int64_t samples = order_ ? static_cast<int64_t>(order_->size()) : options_.dataset_size;
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(end - begin));
  for (int64_t position = begin; position < end; ++position) {
    // Tail::Pad: positions behind the end continue at the start of the order.
    const int64_t wrapped = position % samples;
    indices.push_back(order_ ? (*order_)[static_cast<size_t>(wrapped)] : wrapped);
  }
  return indices;
}

int64_t DistributedSampler::global_size(int64_t step) const {
  require_step(step, steps_);
  return options_.global_batch;
}

EvaluationSampler::EvaluationSampler(const EvaluationOptions& options) : batch_(options.batch) {
  require_valid_rank(options.rank, options.world_size);
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
