// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <torch/types.h>
#include <vector>

#include "lockstep/checkpoint.h"

// Weights in common file formats, from any source of tensors. Only one tensor at once is in memory.
namespace lockstep::checkpoint {

struct WeightsItem {
  std::string from;  // name in the source
  std::string name;  // name in the file
  torch::ScalarType type;
};

// All tensors of a source whose names begin with `prefix`, which is removed from the names.
std::vector<WeightsItem> items_below(const PieceSource& source, std::string_view prefix);

// Called after each tensor with the number of bytes written and the total.
using WriteProgress = std::function<void(uint64_t, uint64_t)>;

// Both replace `file` atomically. write_pt() writes a dict of tensors for torch.load of Python:
void write_pt(const std::filesystem::path& file,
              const PieceSource& source,
              const std::vector<WeightsItem>& items,
              const WriteProgress& progress = {});

void write_safetensors(const std::filesystem::path& file,
                       const PieceSource& source,
                       const std::vector<WeightsItem>& items,
                       const WriteProgress& progress = {});

}  // namespace lockstep::checkpoint
