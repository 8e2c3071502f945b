// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/types.h>

#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "tools/bench/commands.h"
#include "tools/bench/timed_training.h"

namespace lockstep::bench {

// Returns four random batches [4, N, T + 1], int64, from a fixed seed.
torch::Tensor draw_tokens(const Gpt2BenchOptions& options, int64_t vocabulary);

// Returns the batches of the file --tokens, [batches, N, T + 1]. Throws an Error if the size of the
// file is not a multiple of the size of a batch.
torch::Tensor read_tokens(const Gpt2BenchOptions& options, int64_t vocabulary);

// Returns the training of a GPT-2 on `tokens` for at most `steps` steps. `loss` is computed in the
// precision of the session.
TimedTraining make_training(Session& session,
                            const Gpt2BenchOptions& options,
                            const torch::Tensor& tokens,
                            const LossFunction& loss,
                            int64_t steps);

}  // namespace lockstep::bench
