// SPDX-License-Identifier: Apache-2.0
#pragma once

// lockstep-bench: measures training throughput and compares it with the limits of the machine.
namespace lockstep::bench {

int run(int argc, const char* const* argv);

}  // namespace lockstep::bench
