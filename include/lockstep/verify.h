// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/dataset.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/trainer.h"

namespace lockstep {

// Implements --verify-strategies for a program with a custom training loop. Trainer::fit does this
// itself. Use the template below, which takes the model by its own type:
//
//   if (session.wants_verification()) {
//     lockstep::verify_strategies(session, *net, *adam, train, lockstep::CrossEntropy());
//   }
//
// Trains `model` for some steps under every strategy, with 1 to all workers. Each trial starts from
// the current weights of rank 0 and uses the same global batches. Compares the results with a
// training in one process and prints a table.
//
// All workers must call it. It does not return: it throws out of the program's body, and run()
// returns 0, or 1 if the result of a strategy differs from one process by more than rounding
// explains. Throws an Error if the command line contains an option that makes the comparison
// meaningless, such as --compression.
[[noreturn]] void verify_any(Session& session,
                             torch::nn::Module& model,
                             torch::optim::Optimizer& optimizer,
                             const DatasetPtr& train,
                             const LossFunction& loss,
                             const TrainerOptions& options);

// As verify_any(). `loss` takes the model by its own type, as in Trainer::fit.
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
