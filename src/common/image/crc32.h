// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace lockstep::image {

// The CRC-32 of zip, PNG and zlib; continues from `before`, the CRC of the preceding bytes.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t before = 0);

}  // namespace lockstep::image
