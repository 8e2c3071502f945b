// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/crc32c.h"

#include <array>
#include <cstddef>

// Table-driven, one byte per lookup, in the reflected form (least significant bit first, RFC 3720
// appendix B.4). Event files grow by some kilobytes per second, so this is fast enough without the
// instruction of SSE 4.2.
namespace lockstep::monitor {
namespace {

using Table = std::array<uint32_t, 256>;

constexpr Table make_table() {
  constexpr uint32_t kPolynomial = 0x82f63b78U;  // 0x1edc6f41 with its bits reversed
  Table table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? kPolynomial : 0U);
    }
    table[byte] = value;
  }
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = (crc >> 8U) ^ kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xffU];
  }
  return ~crc;
}

}  // namespace lockstep::monitor
