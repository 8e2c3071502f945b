// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/callback.h"
#include "lockstep/dataset.h"
#include "lockstep/strategy.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

// How samples are loaded.
struct EvaluationFeed {
  int64_t batch;       // samples of a worker in one step
  int loader_threads;  // as LoaderOptions::threads
};

// Returns mean loss and accuracy over all workers, with every sample of `test` counted exactly
// once. Samples that `test` omits are not counted. `strategy` is the Strategy that has adopted the
// model, or null. Throws an Error if `test` omits all samples. All workers must call it.
Evaluation evaluate(SessionParts& session,
                    Strategy* strategy,
                    torch::nn::Module& model,
                    const DatasetPtr& test,
                    const LossFunction& loss,
                    const EvaluationFeed& feed);

}  // namespace lockstep::train
