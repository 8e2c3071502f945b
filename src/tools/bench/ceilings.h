// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/types.h>

namespace lockstep::bench {

// Measured limits of the device: upper bounds for any program.
struct Ceilings {
  double matrix_rate = 0;   // floating-point operations per second of a product of square matrices
  int64_t matrix_side = 0;  // rows of these matrices
  double copy_bandwidth = 0;  // bytes per second, reads plus writes
};

// `type` is the type of the matrices. They have random values: with zeros a GPU needs less power
// and is faster.
Ceilings measure_ceilings(torch::Device device, torch::ScalarType type);

}  // namespace lockstep::bench
