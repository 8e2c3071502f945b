// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/callback.h"
#include "lockstep/dataset.h"
#include "lockstep/strategy.h"
#include "train/session_parts.h"

namespace lockstep::train {

// How samples come.
struct EvaluationFeed {
  int64_t batch;       // samples of a worker at once
  int loader_threads;  // as LoaderOptions::threads
};

// Mean loss and accuracy over every sample of `test` exactly once, over the whole gang; samples
// that `test` leaves out do not count. `strategy` has charge of the model; null: nobody. Throws an
// Error where `test` leaves out all.
Evaluation evaluate(SessionParts& session,
                    Strategy* strategy,
                    torch::nn::Module& model,
                    const DatasetPtr& test,
                    const LossFunction& loss,
                    const EvaluationFeed& feed);

}  // namespace lockstep::train
