// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/checkpoint.h"
#include "lockstep/error.h"

// What lockstep-ckpt does; each prints to stdout and throws an Error where it cannot.
namespace lockstep::ckpt {

// Something that holds tensors: a checkpoint, or a file of somebody.
struct Opened {
  std::filesystem::path path;
  std::optional<CheckpointReader> checkpoint;  // none: a file
  std::unique_ptr<PieceSource> tensors;
};

enum class Look { AtAllBytes, AtHeaders };

// A checkpoint, the newest below a run or its checkpoints, a .safetensors, or a file of torch.save
// (`entry`: the dict in it).
Opened open(const std::filesystem::path& path, Look look, const std::string& entry = "");

// The checkpoints' directory of a run, or the path itself.
std::filesystem::path find_root(const std::filesystem::path& path);

// What is said of a path that is no checkpoint and has none below it.
Error no_checkpoint(const std::filesystem::path& path);

struct InspectOptions {
  std::filesystem::path path;
  std::string entry = {};  // of a file of torch.save
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
  std::string only;   // model, optimizer or ema; empty: model of a checkpoint, all of a file
  std::string dtype;  // fp16, bf16 or fp32; empty: as it is
  std::string entry;  // of a file of torch.save
};
void convert(const ConvertOptions& options);

}  // namespace lockstep::ckpt
