// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/torch.h>

namespace lockstep::bench {

// What the device can do, as measured: the best that anything on it may hope for.
struct Ceilings {
  double matrix_rate = 0;     // operations per second of a product of two square matrices
  int64_t matrix_side = 0;    // of those
  double copy_bandwidth = 0;  // bytes per second, read and written together
};

// `type`: what the matrices are of. Random values: a GPU draws less power, and is faster, on zeros.
Ceilings measure_ceilings(torch::Device device, torch::ScalarType type);

}  // namespace lockstep::bench
