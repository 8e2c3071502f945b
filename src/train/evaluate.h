// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/callback.h"
#include "lockstep/dataset.h"
#include "lockstep/strategy.h"
#include "train/session_parts.h"

namespace lockstep::train {

// Mean loss and accuracy over every sample of `test` exactly once, over the whole gang. `strategy`
// has charge of the model; null: nobody.
Evaluation evaluate(SessionParts& session,
                    Strategy* strategy,
                    torch::nn::Module& model,
                    const DatasetPtr& test,
                    const LossFunction& loss,
                    int64_t batch);

}  // namespace lockstep::train
