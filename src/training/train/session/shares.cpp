// SPDX-License-Identifier: Apache-2.0
#include "training/train/session/shares.h"

#include <fmt/format.h>

namespace lockstep::train {
namespace {

// The AutoShardPolicy of TensorFlow. The default is "data", which gives the same training as all
// other strategies; TensorFlow's default is "auto".
Sharding choose_sharding(const std::string& policy,
                         const std::vector<int64_t>& files,
                         int workers) {
  if (policy == "off") {
    return Sharding::Off;
  }
  // With fewer files than workers, some workers would have no samples.
  const bool has_enough = static_cast<int>(files.size()) >= workers;
  return policy == "file" || (policy == "auto" && has_enough && workers > 1) ? Sharding::File
                                                                             : Sharding::Data;
}

}  // namespace

// The same seed on all workers: they compute the same permutation and take disjoint parts of it.
SamplerOptions sampler_options(const SessionParts& session,
                               const TrainerOptions& options,
                               const DatasetPtr& train) {
  return {.dataset_size = train->size(),
          .global_batch = options.global_batch,
          .rank = session.communicator->rank(),
          .world_size = session.communicator->size(),
          .tail = options.tail,
          .seed = options.seed,
          .sharding = choose_sharding(
              session.flags.auto_shard, train->files(), session.communicator->size()),
          .files = train->files()};
}

std::string describe_shares(const DistributedSampler& sampler,
                            const TrainerOptions& options,
                            int64_t samples) {
  if (sampler.sharding() != Sharding::Data) {
    return sampler.sharding() == Sharding::File ? "sharded by file" : "no sharding";
  }
  const int64_t taken = sampler.steps() * options.global_batch;
  return options.tail == Tail::Drop ? fmt::format("{} samples dropped", samples - taken)
                                    : fmt::format("{} samples padded", taken - samples);
}

}  // namespace lockstep::train
