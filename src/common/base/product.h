// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace lockstep {

// The product of the extents and of `unit`: the elements of a shape, or its bytes if `unit` is the
// size of an element. Returns nothing if an extent is negative, or if the product exceeds 63 bits.
//
// Sizes in files are the choice of their author. A product that wraps around makes a buffer that is
// too small for what is then copied into it, so readers of tensor shapes use this function.
inline std::optional<int64_t> find_product(std::span<const int64_t> extents, int64_t unit = 1) {
  int64_t product = unit;
  bool fits = unit >= 0;
  for (const int64_t extent : extents) {
    fits = fits && extent >= 0 && !__builtin_mul_overflow(product, extent, &product);
  }
  return fits ? std::optional(product) : std::nullopt;
}

}  // namespace lockstep
