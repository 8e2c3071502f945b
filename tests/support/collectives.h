// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "lockstep/communicator.h"

namespace lockstep {

// Goes through every collective of `comm`, which all ranks must do, and returns what was wrong on
// this rank, one line each; empty if all was right. The same promises for every transport.
std::string faults_of_collectives(Communicator& comm);

}  // namespace lockstep
