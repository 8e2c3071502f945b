// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/defaults.h"

#include <algorithm>
#include <fmt/format.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "common/base/text.h"
#include "common/cluster/cores.h"
#include "common/contract/worker_env.h"
#include "common/os/memory.h"
#include "training/comm/block_allocator.h"

namespace lockstep::train {
namespace {

int choose_threads(const os::Environment& environment, int local_world_size) {
  constexpr int kMaxThreads = 4096;
  const auto set = contract::find_number(environment, contract::kThreads, 1, kMaxThreads);
  return set.value_or(contract::threads_per_worker(cluster::granted_cores(), local_world_size));
}

// torch::set_num_threads() has no effect on a BLAS with its own threads.
void set_blas_threads(int threads) {
  for (const char* name :
       {"openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads"}) {
    if (void* symbol = os::find_symbol(name)) {
      reinterpret_cast<void (*)(int)>(symbol)(threads);
      return;
    }
  }
}

// "generic" in libtorch's configuration means the libblas.so.3 of the system. Several BLAS
// libraries can be loaded; the one that defines sgemm_ is in use. BLAS_INFO is in the build
// configuration of libtorch: "BLAS_INFO=mkl, ...". The position 10 is its length.
void set_blas(Defaults& defaults) {
  const std::string config = torch::show_config();
  const size_t start = config.find("BLAS_INFO=");
  const std::string built =
      start == std::string::npos
          ? "libtorch's BLAS"
          : config.substr(start + 10, config.find_first_of(", \n", start) - start - 10);
  const std::string library = os::library_of("sgemm_");
  defaults.blas = built;
  if (library.find("openblas") != std::string::npos) {
    defaults.blas = "OpenBLAS";
  } else if (library.find("blis") != std::string::npos) {
    defaults.blas = "BLIS";
  } else if (built == "generic" && library.find("libblas.so") != std::string::npos) {
    defaults.blas = "the reference BLAS";
    defaults.is_blas_slow = true;
  }
}

// Another allocator (jemalloc, tcmalloc) ignores mallopt and has its own settings.
bool user_sets_malloc(const os::Environment& environment) {
  return std::any_of(environment.begin(), environment.end(), [](const auto& variable) {
    return variable.first.starts_with("MALLOC_") || variable.first == "GLIBC_TUNABLES" ||
           (variable.first == "LD_PRELOAD" && variable.second.find("malloc") != std::string::npos);
  });
}

}  // namespace

std::string Defaults::text() const {
  return fmt::format("{} per worker, {}{}",
                     plural(threads, "thread"),
                     blas,
                     keeps_memory ? ", freed memory is reused" : "");
}

// Memory first: the setting applies to blocks that are allocated after it. libtorch's default of
// one thread per core would start cores x workers threads on a node.
Defaults set_defaults(const os::Environment& environment, int local_world_size) {
  Defaults defaults;
  defaults.keeps_memory = !user_sets_malloc(environment) && os::keep_freed_memory();
  if (defaults.keeps_memory) {
    comm::keep_blocks();
  }
  defaults.threads = choose_threads(environment, local_world_size);
  torch::set_num_threads(defaults.threads);
  if (!os::find_variable(environment, "OPENBLAS_NUM_THREADS")) {
    set_blas_threads(defaults.threads);
  }
  set_blas(defaults);
  return defaults;
}

// CUDA distributes the streams of a process to 8 hardware queues by default. Work in a queue waits
// for all earlier work there, also for that of other streams. nvJPEG creates 14 streams for each
// decoder, so some of them would wait for the CUDA graph of the whole step. 32 is the maximum.
os::Environment process_variables(const os::Environment& environment) {
  os::Environment variables = {{"CUDA_DEVICE_MAX_CONNECTIONS", "32"}};
  std::erase_if(variables, [&](const auto& each) { return environment.contains(each.first); });
  return variables;
}

}  // namespace lockstep::train
