// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint.h"
#include "training/checkpoint/manifest.h"

namespace lockstep::checkpoint {

// The shards of a checkpoint of version 2; `files` are all of its files. Reads the headers and
// checks that the shards contain every element exactly once.
std::unique_ptr<PieceSource> open_shards(const std::filesystem::path& directory,
                                         const std::vector<std::string>& files,
                                         TensorTable tensors);

// Tensors in memory.
std::unique_ptr<PieceSource> hold_tensors(NamedTensors tensors, std::string description);

// The usual parts of a checkpoint of version 1.
std::unique_ptr<PieceSource> read_parts(const CheckpointReader& reader);

// Any safetensors file.
std::unique_ptr<PieceSource> open_safetensors(const std::filesystem::path& file);

// An entire tensor, on the CPU.
torch::Tensor read_whole(const PieceSource& source, std::string_view name);

// All tensors whose names begin with `prefix`, which is removed from the names.
NamedTensors read_all(const PieceSource& source, std::string_view prefix);

}  // namespace lockstep::checkpoint
