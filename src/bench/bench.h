// SPDX-License-Identifier: Apache-2.0
#pragma once

// lockstep-bench: how fast this machine trains, and how far that is from what it could do.
namespace lockstep::bench {

int run(int argc, const char* const* argv);

}  // namespace lockstep::bench
