// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/dataset.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/trainer.h"

namespace lockstep {

// What --verify-strategies does, for a program with a loop of its own, which asks
// Session::wants_verification() and calls this instead of training; Trainer::fit does it by itself.
//
// Trains `model` for some steps under every strategy, on one worker up to all of them, each time
// from the weights that rank 0 holds now and on the same global batches, and compares with one
// process. Prints a table. Does not return: it leaves the program's body, and run() ends with 0, or
// with 1 if a strategy is further from one process than rounding explains.
[[noreturn]] void verify_any(Session& session,
                             torch::nn::Module& model,
                             torch::optim::Optimizer& optimizer,
                             const DatasetPtr& train,
                             const LossFunction& loss,
                             const TrainerOptions& options);

// `loss` takes the model by its own type, as in Trainer::fit.
template <typename Model, typename Callable>
[[noreturn]] void verify_strategies(Session& session,
                                    Model& model,
                                    torch::optim::Optimizer& optimizer,
                                    const DatasetPtr& train,
                                    Callable loss,
                                    const TrainerOptions& options = {}) {
  verify_any(session, model, optimizer, train, loss_of<Model>(std::move(loss)), options);
}

}  // namespace lockstep
