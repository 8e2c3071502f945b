// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string_view>

namespace lockstep::comm {

// libtorch and Gloo report a lost or silent peer only as text. Throws the corresponding Error
// (ExitCode::TryAgain); returns if `fault` is something else.
void throw_if_lost_peer(std::string_view call, const std::exception& fault);

}  // namespace lockstep::comm
