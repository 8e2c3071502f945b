// SPDX-License-Identifier: Apache-2.0
#include "os/processors.h"

#include <memory>
#include <sched.h>
#include <thread>

namespace lockstep::os {

int usable_processors() {
  // The kernel refuses a mask that is smaller than its own; double until it fits.
  constexpr int kMostProcessors = 1 << 16;
  for (int count = CPU_SETSIZE; count <= kMostProcessors; count *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> mask(
        CPU_ALLOC(static_cast<size_t>(count)), [](cpu_set_t* set) { CPU_FREE(set); });
    const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(count));
    if (::sched_getaffinity(0, bytes, mask.get()) == 0) {
      return CPU_COUNT_S(bytes, mask.get());
    }
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace lockstep::os
