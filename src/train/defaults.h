// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "os/environment.h"

namespace lockstep::train {

// What a worker sets for itself before training, because libtorch's own defaults are slow or
// harmful with several workers on a machine.
struct Defaults {
  int threads = 1;   // of OpenMP and BLAS
  std::string blas;  // "OpenBLAS", "MKL", ..., "the reference BLAS"
  bool is_blas_slow = false;
  bool keeps_memory = false;

  // One line for people.
  std::string text() const;
};

// Sets them for this process; call before the first operator. A variable that the user has set
// (OMP_NUM_THREADS, MALLOC_...) wins.
Defaults set_defaults(const os::Environment& environment, int local_world_size);

}  // namespace lockstep::train
