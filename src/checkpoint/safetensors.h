// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "os/files.h"

// The safetensors format: eight bytes with the length of a JSON header, the header, then the
// tensors' bytes without gaps, row by row, little-endian.
namespace lockstep::checkpoint {

// Of the format's words, such as "F32"; 0: not one of them.
uint64_t width_of(std::string_view dtype);

struct SafetensorsEntry {
  std::string dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  // in the data area
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata = {};
  uint64_t data_offset = 0;  // of the data area in the file
};

// Everything before the data area, padded so that this begins at a multiple of eight.
std::string to_text(const SafetensorsHeader& header);

// Checked: every number lies in the file, and the tensors fill the data area without gap or
// overlap. Throws Error (Io) that says what is wrong, with which tensor.
SafetensorsHeader read_safetensors_header(const os::InputFile& file);

}  // namespace lockstep::checkpoint
