// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <torch/torch.h>
#include <vector>

#include "lockstep/checkpoint.h"

// Files for others, written from any source of tensors, one tensor in memory at a time.
namespace lockstep::checkpoint {

struct WeightsItem {
  std::string from;  // its name in the source
  std::string name;  // in the file
  torch::ScalarType type;
};

// What a source has under `prefix`, without it.
std::vector<WeightsItem> items_below(const PieceSource& source, std::string_view prefix);

// Told after each tensor: bytes written, and bytes in all.
using WriteProgress = std::function<void(uint64_t, uint64_t)>;

// Each replaces `file` atomically. A dict of tensors for Python's torch.load:
void write_pt(const std::filesystem::path& file,
              const PieceSource& source,
              const std::vector<WeightsItem>& items,
              const WriteProgress& progress = {});

void write_safetensors(const std::filesystem::path& file,
                       const PieceSource& source,
                       const std::vector<WeightsItem>& items,
                       const WriteProgress& progress = {});

}  // namespace lockstep::checkpoint
