// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/os/environment.h"

namespace lockstep::train {

// Settings that a worker makes before training, because the defaults of libtorch are slow or
// harmful with several workers on a machine.
struct Defaults {
  int threads = 1;   // of OpenMP and BLAS
  std::string blas;  // "OpenBLAS", "MKL", ..., "the reference BLAS"
  bool is_blas_slow = false;
  bool keeps_memory = false;

  // A line for the log.
  std::string text() const;
};

// Applies the settings to this process. Call it before the first libtorch operator. Variables of
// the user (OMP_NUM_THREADS, MALLOC_...) take precedence.
Defaults set_defaults(const os::Environment& environment, int local_world_size);

// Variables of this process that must be set before CUDA is initialized and before the first
// thread. Values of `environment` have priority.
os::Environment process_variables(const os::Environment& environment);

}  // namespace lockstep::train
