// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/dataset.h"
#include "lockstep/sampler.h"
#include "lockstep/trainer.h"
#include "train/session_parts.h"

namespace lockstep::train {

// How this worker's samples are chosen.
SamplerOptions sampler_options(const SessionParts& session,
                               const TrainerOptions& options,
                               const DatasetPtr& train);

// "96 samples dropped", or how samples are shared out otherwise.
std::string describe_shares(const DistributedSampler& sampler,
                            const TrainerOptions& options,
                            int64_t samples);

}  // namespace lockstep::train
