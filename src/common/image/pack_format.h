// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>

// A pack: many images in one file. docs/images.md describes all fields.
//
//   head     magic, version
//   images   one after the other, each aligned to 8 bytes
//   JSON     split, classes, scaling options
//   entries  one per image
//   names    one per image, each terminated by a zero byte
//   end      offsets of these parts; last, so that a truncated file has no valid end
//
// Numbers are little-endian, as in memory.
namespace lockstep::image {

static_assert(std::endian::native == std::endian::little);

inline constexpr uint32_t kPackVersion = 1;
inline constexpr uint64_t kPackAlignment = 8;
inline constexpr std::array<char, 8> kPackMagic = {'L', 'S', 'P', 'A', 'C', 'K', '\r', '\n'};
inline constexpr std::array<char, 8> kPackEndMagic = {'L', 'S', 'P', 'A', 'C', 'K', 'E', 'D'};

struct PackHead {
  std::array<char, 8> magic = kPackMagic;
  uint32_t version = kPackVersion;
  uint32_t unused = 0;
};
static_assert(sizeof(PackHead) == 16);

struct PackEntry {
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint32_t label = 0;
  uint32_t name = 0;  // offset in the names
  uint32_t crc = 0;   // CRC-32 of the image
};
static_assert(sizeof(PackEntry) == 24);

struct PackEnd {
  uint64_t json_offset = 0;
  uint64_t json_bytes = 0;
  uint64_t entries_offset = 0;
  uint64_t entries = 0;
  uint64_t names_offset = 0;
  uint64_t names_bytes = 0;
  uint32_t crc = 0;  // CRC-32 of JSON, entries and names, from json_offset up to the end
  uint32_t version = kPackVersion;
  std::array<char, 8> magic = kPackEndMagic;
};
static_assert(sizeof(PackEnd) == 64);

}  // namespace lockstep::image
