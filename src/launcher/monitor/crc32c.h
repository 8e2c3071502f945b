// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::monitor {

// CRC-32C (Castagnoli), as in iSCSI and in TensorFlow's record files.
uint32_t crc32c(std::string_view bytes);

}  // namespace lockstep::monitor
