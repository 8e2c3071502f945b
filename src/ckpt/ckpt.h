// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::ckpt {

// lockstep-ckpt, from its command line to its exit code.
int run(int argc, const char* const* argv);

}  // namespace lockstep::ckpt
