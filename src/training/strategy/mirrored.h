// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// -s mirrored, as MultiWorkerMirroredStrategy of TensorFlow: every replica holds all variables; its
// loss is divided by the global batch, and gradients are summed after backward.
std::unique_ptr<Strategy> make_mirrored(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
