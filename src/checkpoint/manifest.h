// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint.h"

// The texts of a checkpoint: manifest.json, state.json and COMPLETE.
namespace lockstep::checkpoint {

// Version 1 has a .pt file for each part; version 2 has the tensors in shards, one for each worker
// that wrote, and what they hold in the manifest.
inline constexpr int kPartsVersion = 1;
inline constexpr int kFormatVersion = 2;

struct ManifestEntry {
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3, 64 bits
};
using Manifest = std::map<std::string, ManifestEntry>;  // by file name

// What one shard holds of a tensor.
struct Stretch {
  int shard = 0;
  int64_t offset = 0;  // of its first element
  int64_t count = 0;
};

struct TensorEntry {
  std::string dtype;  // as safetensors has it
  std::vector<int64_t> shape;
  std::vector<Stretch> stretches;  // in the order of their offsets

  int64_t elements() const;
};
using TensorTable = std::map<std::string, TensorEntry, std::less<>>;  // by name

uint64_t checksum(std::string_view bytes);

// Of bytes that come one after another.
class RunningChecksum {
 public:
  RunningChecksum();
  ~RunningChecksum();
  RunningChecksum(const RunningChecksum&) = delete;
  RunningChecksum& operator=(const RunningChecksum&) = delete;

  void add(const void* bytes, size_t count);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string to_text(uint64_t checksum);

// Reads the file in pieces.
ManifestEntry measure(const std::filesystem::path& file);

std::string to_json(const Manifest& manifest);
std::string to_json(const Manifest& manifest, const TensorTable& tensors);
std::string to_json(const CheckpointState& state, int version = kPartsVersion);
std::string complete_text(std::string_view manifest_json);

// Each throws Error: Io where the text is malformed, Usage where its format is newer than this
// program. `file` is for the message.
Manifest parse_manifest(std::string_view json, const std::filesystem::path& file);
TensorTable parse_tensors(std::string_view json, const std::filesystem::path& file);
CheckpointState parse_state(std::string_view json, const std::filesystem::path& file);

uint64_t parse_checksum(const std::string& text, const std::filesystem::path& file);

// Throws Error (Io), that names the tensor and the element, where the stretches of a tensor leave
// one out or have one twice. `source` is for the message.
void require_covered(const TensorTable& tensors, std::string_view source);

// A plain file name that is none of those with a meaning of their own.
bool is_part_name(std::string_view name);

}  // namespace lockstep::checkpoint
