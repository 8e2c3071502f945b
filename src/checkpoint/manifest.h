// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "lockstep/checkpoint.h"

// The texts of a checkpoint: manifest.json, state.json and COMPLETE.
namespace lockstep::checkpoint {

inline constexpr int kFormatVersion = 1;

struct ManifestEntry {
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3, 64 bits
};
using Manifest = std::map<std::string, ManifestEntry>;  // by file name

uint64_t checksum(std::string_view bytes);

// Reads the file in pieces.
ManifestEntry measure(const std::filesystem::path& file);

std::string to_json(const Manifest& manifest);
std::string to_json(const CheckpointState& state);
std::string complete_text(std::string_view manifest_json);

// Each throws Error: Io where the text is malformed, Usage where its format is newer than this
// program. `file` is for the message.
Manifest parse_manifest(std::string_view json, const std::filesystem::path& file);
CheckpointState parse_state(std::string_view json, const std::filesystem::path& file);

// A plain file name that is none of those with a meaning of their own.
bool is_part_name(std::string_view name);

}  // namespace lockstep::checkpoint
