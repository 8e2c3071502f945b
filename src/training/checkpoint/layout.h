// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/checkpoint.h"

// Names below a checkpoint root. A name with a leading dot is never a checkpoint.
//
//   ROOT/step-00000938/                   a checkpoint, if it contains the file COMPLETE
//   ROOT/.step-00000938.TOKEN.partial/    being written; ".TOKEN" is absent in version 1
//   ROOT/.trash-step-00000938/            being deleted
//   ROOT/best                             link to the best checkpoint by a metric
//   ROOT/set-aside-1/                     checkpoints of an earlier training that started again
namespace lockstep::checkpoint {

inline constexpr std::string_view kStateFile = "state.json";
inline constexpr std::string_view kManifestFile = "manifest.json";
inline constexpr std::string_view kCompleteFile = "COMPLETE";
inline constexpr std::string_view kBestLink = "best";

// "shard-00001-of-00004.safetensors", the file of rank 1 of 4, and "shard-00001-of-00004.json", the
// index of its content. The index exists only until the checkpoint is complete.
std::string shard_name(int rank, int writers);
std::string index_name(int rank, int writers);

std::string directory_name(int64_t step);
// The step of a directory with exactly this form of name; nothing for any other name.
std::optional<int64_t> find_step(std::string_view directory_name);

std::filesystem::path partial_path(const std::filesystem::path& root,
                                   int64_t step,
                                   std::string_view token = "");

// Deletes a checkpoint. It is renamed first, so that a crash never leaves a checkpoint that has
// COMPLETE and lacks other files.
void discard(const std::filesystem::path& directory);

// Moves the checkpoints of steps after `step` to ROOT/set-aside-N, for a training that continues at
// `step`: they belong to another training, and by name they would be the newest. Returns the
// directory; empty: there are no such checkpoints.
std::filesystem::path set_aside(const std::filesystem::path& root, int64_t step);

// Removes the leftovers of writers that have died: partial and trash directories, and step-
// directories without COMPLETE. A directory that a live process has locked is skipped.
void remove_leftovers(const std::filesystem::path& root);

}  // namespace lockstep::checkpoint
