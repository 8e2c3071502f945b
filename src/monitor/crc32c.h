// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::monitor {

// The CRC-32 of Castagnoli, as in iSCSI and in TensorFlow's files.
uint32_t crc32c(std::string_view bytes);

}  // namespace lockstep::monitor
