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

// The text files of a checkpoint: manifest.json, state.json and COMPLETE.
namespace lockstep::checkpoint {

// Version 1 has one .pt file per part. Version 2 has the tensors in shards, one per writing rank,
// and a table of their content in the manifest.
inline constexpr int kPartsVersion = 1;
inline constexpr int kFormatVersion = 2;

struct ManifestEntry {
  uint64_t bytes = 0;
  uint64_t checksum = 0;  // XXH3, 64 bits
};
using Manifest = std::map<std::string, ManifestEntry>;  // by file name

// The contiguous range of a tensor that one shard contains.
struct Stretch {
  int shard = 0;
  int64_t offset = 0;  // of the first element in the flattened tensor
  int64_t count = 0;
};

struct TensorEntry {
  std::string dtype;  // name in the safetensors format, for example F32
  std::vector<int64_t> shape;
  std::vector<Stretch> stretches;  // ordered by offset

  int64_t elements() const;
};
using TensorTable = std::map<std::string, TensorEntry, std::less<>>;  // by name

uint64_t checksum(std::string_view bytes);

// The checksum of a sequence of blocks.
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

// Size and checksum of a file, which is read in blocks.
ManifestEntry measure(const std::filesystem::path& file);

std::string to_json(const Manifest& manifest);
std::string to_json(const Manifest& manifest, const TensorTable& tensors);
std::string to_json(const CheckpointState& state, int version = kPartsVersion);
std::string complete_text(std::string_view manifest_json);

// Each throws Error: Io if the text is malformed, Usage if the format version is newer than this
// program. `file` is used in messages only.
Manifest parse_manifest(std::string_view json, const std::filesystem::path& file);
TensorTable parse_tensors(std::string_view json, const std::filesystem::path& file);
CheckpointState parse_state(std::string_view json, const std::filesystem::path& file);

uint64_t parse_checksum(const std::string& text, const std::filesystem::path& file);

// Throws Error (Io) with the name of the tensor and the number of the element if the stretches of a
// tensor omit an element or contain one twice. `source` is used in the message only.
void require_covered(const TensorTable& tensors, std::string_view source);

// Whether `name` is a valid file name for a part: no directory, no leading dot, not reserved.
bool is_part_name(std::string_view name);

}  // namespace lockstep::checkpoint
