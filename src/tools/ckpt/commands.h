// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/checkpoint.h"
#include "lockstep/error.h"

// The subcommands of lockstep-ckpt. Each prints to stdout and throws an Error on failure.
namespace lockstep::ckpt {

// An open source of tensors: a checkpoint or a file.
struct Opened {
  std::filesystem::path path;
  std::optional<CheckpointReader> checkpoint;  // absent: a file
  std::unique_ptr<PieceSource> tensors;
};

enum class Look { AtAllBytes, AtHeaders };

// Opens a checkpoint, the newest checkpoint of a run, a .safetensors file, or a file of torch.save
// (`entry` is the dict to read from it).
Opened open(const std::filesystem::path& path, Look look, const std::string& entry = "");

// The directory of checkpoints of a run, or the path itself.
std::filesystem::path find_root(const std::filesystem::path& path);

// The error for a path that neither is nor contains a checkpoint.
Error no_checkpoint(const std::filesystem::path& path);

struct InspectOptions {
  std::filesystem::path path;
  std::string entry = {};  // dict in a file of torch.save
  bool json = false;
};
void inspect(const InspectOptions& options);
void list(const InspectOptions& options);

void verify(const std::filesystem::path& path);

struct PruneOptions {
  std::filesystem::path root;
  int keep = 0;
  bool dry_run = false;
};
void prune(const PruneOptions& options);

struct ConvertOptions {
  std::filesystem::path from;
  std::filesystem::path to;
  std::string only;   // model, optimizer or ema; empty: model of a checkpoint, or the entire file
  std::string dtype;  // fp16, bf16 or fp32; empty: unchanged
  std::string entry;  // dict in a file of torch.save
};
void convert(const ConvertOptions& options);

}  // namespace lockstep::ckpt
