// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/contract/worker_env.h"
#include "lockstep/error.h"

namespace lockstep::comm {

// Prints "lockstep: error: TEXT" on stderr, after all output of the program.
void print_error(std::string_view text);

// The error of a worker that ends without printing it, because another worker prints one. Under
// `lockstep run` the error is added to the log of this worker. Printed if that is not possible.
void keep_error(const Error& error, const contract::WorkerSpec& spec);

}  // namespace lockstep::comm
