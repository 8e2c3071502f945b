// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/device_memory.h"

namespace lockstep::train {

std::optional<int64_t> held_device_bytes(torch::Device /*device*/) {
  return std::nullopt;
}

}  // namespace lockstep::train
