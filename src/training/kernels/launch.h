// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cuda_runtime_api.h>

namespace lockstep::kernels {

// Throws Error with the name of the call and CUDA's text, unless `status` is success.
void check_cuda(cudaError_t status, const char* call);

// Throws Error if the preceding launch of `kernel` failed.
void check_launch(const char* kernel);

// Checks an argument of the caller: throws Error if `is_met` is false.
void require(bool is_met, const char* what);

// Properties of the current device.
int multiprocessors();
int shared_bytes_per_block();  // maximum that a kernel can request
bool has_bulk_copies();        // Hopper or newer

inline int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

}  // namespace lockstep::kernels
