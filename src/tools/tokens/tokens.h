// SPDX-License-Identifier: Apache-2.0
#pragma once

// lockstep-tokens: converts texts to token files.
namespace lockstep::tokens {

int run(int argc, const char* const* argv);

}  // namespace lockstep::tokens
