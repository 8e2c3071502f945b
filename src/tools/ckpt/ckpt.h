// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::ckpt {

// The main function of lockstep-ckpt; returns the exit code.
int run(int argc, const char* const* argv);

}  // namespace lockstep::ckpt
