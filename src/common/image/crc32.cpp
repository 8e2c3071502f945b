// SPDX-License-Identifier: Apache-2.0
#include "common/image/crc32.h"

#include <zlib.h>

namespace lockstep::image {

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  // zlib returns 0, not `before`, for a null pointer.
  return bytes.empty() ? before
                       : static_cast<uint32_t>(::crc32_z(
                             before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace lockstep::image
