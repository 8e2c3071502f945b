// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <system_error>

#include "lockstep/error.h"
#include "tools/ckpt/commands.h"
#include "training/checkpoint/piece_sources.h"

namespace lockstep::ckpt {
namespace {

// verified() trusts the files and computes no checksums: `inspect` must be fast on large
// checkpoints, and shows no values that a damaged byte could change.
CheckpointReader read(const std::filesystem::path& directory, Look look) {
  return look == Look::AtAllBytes ? CheckpointReader(directory)
                                  : CheckpointReader::verified(directory);
}

// The directory itself, or the newest checkpoint below it.
// COMPLETE is looked for first: a checkpoint that was copied or renamed is still one.
// list_checkpoints() would find it only under its original name.
std::filesystem::path find_checkpoint(const std::filesystem::path& path) {
  std::error_code unknown;
  if (std::filesystem::exists(path / "COMPLETE", unknown)) {
    return path;
  }
  const std::vector<CheckpointEntry> entries = list_checkpoints(find_root(path));
  // For an incomplete checkpoint the reader throws a better error.
  if (entries.empty() && !std::filesystem::exists(path / "manifest.json", unknown)) {
    throw no_checkpoint(path);
  }
  return entries.empty() ? path : entries.back().directory;
}

}  // namespace

Error no_checkpoint(const std::filesystem::path& path) {
  std::error_code unknown;
  return Error(
             ExitCode::Io,
             fmt::format("cannot use {}: it {}",
                         path.string(),
                         std::filesystem::exists(path, unknown) ? "contains no complete checkpoint"
                                                                : "does not exist"))
      .hint("pass a run directory, its directory of checkpoints, or one checkpoint");
}

// A run directory contains "checkpoints"; any other path is taken as that directory itself.
std::filesystem::path find_root(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::filesystem::path below = path / "checkpoints";
  return std::filesystem::is_directory(below, unknown) ? below : path;
}

// A file is taken for safetensors by its name only. torch.save has no usual extension (.pt, .pth,
// .bin, .ckpt), so every other file is read as such, and load_weights() explains what is wrong.
Opened open(const std::filesystem::path& path, Look look, const std::string& entry) {
  std::error_code unknown;
  const bool is_directory = std::filesystem::is_directory(path, unknown);
  if (!entry.empty() && (is_directory || path.extension() == ".safetensors")) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot read --entry {} from {}", entry, path.string()))
        .fact("expected", "a file of torch.save that contains more than weights")
        .hint(is_directory ? "--only model, optimizer or ema" : "drop --entry");
  }
  if (is_directory) {
    CheckpointReader reader = read(find_checkpoint(path), look);
    std::unique_ptr<PieceSource> tensors = reader.pieces();
    return {
        .path = reader.directory(), .checkpoint = std::move(reader), .tensors = std::move(tensors)};
  }
  if (!std::filesystem::exists(path, unknown)) {
    throw Error(ExitCode::Io, fmt::format("cannot read {}: it does not exist", path.string()));
  }
  if (path.extension() == ".safetensors") {
    return {.path = path, .checkpoint = {}, .tensors = checkpoint::open_safetensors(path)};
  }
  return {.path = path,
          .checkpoint = {},
          .tensors = checkpoint::hold_tensors(load_weights(path, entry), path.string())};
}

}  // namespace lockstep::ckpt
