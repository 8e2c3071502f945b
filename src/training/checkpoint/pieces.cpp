// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lockstep/checkpoint.h"

namespace lockstep {

// Whole tensors as pieces that begin at element 0. detach() shares the memory: nothing is copied
// before the shard is written.
std::vector<TensorPiece> as_pieces(std::string_view prefix, const NamedTensors& tensors) {
  std::vector<TensorPiece> pieces;
  pieces.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    pieces.push_back({.name = fmt::format("{}{}", prefix, name),
                      .shape = tensor.sizes().vec(),
                      .offset = 0,
                      .values = tensor.detach()});
  }
  return pieces;
}

}  // namespace lockstep
