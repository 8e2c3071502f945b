// SPDX-License-Identifier: Apache-2.0
#include "common/image/crc32.h"

#include <array>

namespace lockstep::image {
namespace {

// Eight tables, to process eight bytes per step (slicing-by-8).
using Tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value >> 1U) ^ ((value & 1U) != 0 ? 0xedb88320U : 0U);
    }
    tables[0][byte] = value;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t t = 1; t < tables.size(); ++t) {
      const uint32_t before = tables[t - 1][byte];
      tables[t][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      const auto value = static_cast<uint32_t>(bytes[at + i]);
      const uint32_t mixed = i < 4 ? value ^ ((crc >> (8 * i)) & 0xffU) : value;
      next ^= kTables[7 - i][mixed];
    }
    crc = next;
  }
  for (; at < bytes.size(); ++at) {
    crc = (crc >> 8U) ^ kTables[0][(crc ^ static_cast<uint32_t>(bytes[at])) & 0xffU];
  }
  return ~crc;
}

}  // namespace lockstep::image
