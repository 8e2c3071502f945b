// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <torch/torch.h>

#include "lockstep/checkpoint.h"

// The .pt format: a zip archive of one pickle and one record per tensor storage.
namespace lockstep::checkpoint {

// The bytes of a .pt file, made in memory so that whoever writes them can check every write.
std::string to_pt(const c10::IValue& value);

c10::IValue as_value(const NamedTensors& tensors);

// The same without a look at the tensors' content: each must be dense, alone in its storage, on the
// CPU.
c10::IValue as_plain_value(const NamedTensors& tensors);

}  // namespace lockstep::checkpoint
