// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint.h"

// Names under a checkpoint root. What begins with a dot is never a checkpoint.
//
//   ROOT/step-00000938/             a checkpoint, once it has its COMPLETE
//   ROOT/.step-00000938.partial/    being written
//   ROOT/.trash-step-00000938/      being deleted
//   ROOT/best                       a link to the best by a metric
//   ROOT/set-aside-1/               checkpoints of a training that was begun anew, or from before
namespace lockstep::checkpoint {

inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kCompleteFile = "COMPLETE";
inline constexpr std::string_view kBestLink = "best";

// "shard-00001-of-00004.safetensors": what worker 1 of 4 writes, and its index while the others
// still write.
std::string shard_name(int rank, int writers);
std::string index_name(int rank, int writers);

std::string directory_name(int64_t step);
std::optional<int64_t> find_step(std::string_view directory_name);

std::filesystem::path partial_path(const std::filesystem::path& root,
                                   int64_t step,
                                   std::string_view token = "");

// Makes a checkpoint vanish in one instant, then frees its bytes.
void discard(const std::filesystem::path& directory);

// Moves the checkpoints of steps after `step` out of the way, for a training that goes on from
// there: they are another one's, and newer by name. Returns where they are; empty: there are none.
std::filesystem::path set_aside(const std::filesystem::path& root, int64_t step);

// Removes what dead writers left behind: partial and trashed directories, and checkpoints without
// COMPLETE. What a living process has locked stays.
void remove_leftovers(const std::filesystem::path& root);

}  // namespace lockstep::checkpoint
