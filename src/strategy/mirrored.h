// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/strategy.h"

namespace lockstep::strategy {

// TensorFlow's MultiWorkerMirroredStrategy: every replica holds the variables; its loss is divided
// by the global batch, and gradients are summed when backward is over.
std::unique_ptr<Strategy> make_mirrored(Communicator& communicator, const StrategyOptions& options);

}  // namespace lockstep::strategy
