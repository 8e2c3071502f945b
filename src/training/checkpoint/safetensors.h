// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/files.h"

// The safetensors format:
//
//   offset 0    length N of the header, uint64, little-endian
//   offset 8    header: N bytes of JSON, padded with spaces
//   offset 8+N  data area: the tensors without gaps, in row-major order, little-endian
namespace lockstep::checkpoint {

// Bytes per element of a dtype such as "F32"; 0: unknown dtype.
uint64_t width_of(std::string_view dtype);

struct SafetensorsEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // relative to the data area
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata = {};
  uint64_t data_offset = 0;  // of the data area, from the beginning of the file
};

// Everything before the data area, padded so that the data area is aligned to eight bytes.
std::string to_text(const SafetensorsHeader& header);

// Reads and checks a header: all offsets are inside the file, and the tensors fill the data area
// without gaps or overlaps. Throws Error (Io) with the reason and the name of the tensor.
SafetensorsHeader read_safetensors_header(const os::InputFile& file);

}  // namespace lockstep::checkpoint
