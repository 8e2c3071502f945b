// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/dataset.h"
#include "lockstep/sampler.h"
#include "lockstep/trainer.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// Returns the options of the sampler of this worker.
SamplerOptions sampler_options(const SessionParts& session,
                               const TrainerOptions& options,
                               const DatasetPtr& train);

// Describes the distribution of samples: "96 samples dropped", "sharded by file".
std::string describe_shares(const DistributedSampler& sampler,
                            const TrainerOptions& options,
                            int64_t samples);

}  // namespace lockstep::train
