// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/types.h>

#include "lockstep/checkpoint.h"

// The .pt format: a zip archive of one pickle and one record per tensor storage.
namespace lockstep::checkpoint {

// The bytes of a .pt file. They are created in memory so that the caller can check every write.
std::string to_pt(const c10::IValue& value);

c10::IValue as_value(const NamedTensors& tensors);

// The tensors as a dict without copying them: each must be dense, on the CPU, and the only tensor
// in its storage.
c10::IValue as_plain_value(const NamedTensors& tensors);

}  // namespace lockstep::checkpoint
