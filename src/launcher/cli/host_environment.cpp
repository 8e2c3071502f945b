// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/host_environment.h"

#include <filesystem>
#include <fmt/format.h>
#include <random>

#include "common/cluster/cores.h"
#include "common/cluster/gpus.h"
#include "common/cluster/launcher_task.h"
#include "common/cluster/slurm_env.h"
#include "common/os/environment.h"
#include "common/os/host.h"
#include "common/os/terminal.h"

// Collects what a plan depends on. make_plan() gets these values as an argument, so that plans can
// be tested with invented hosts.
namespace lockstep::cli {

// Inside a worker, the variables of Slurm and of other launchers describe the outer run. A nested
// lockstep run must not treat them as its own allocation.
plan::HostEnvironment read_host_environment() {
  plan::HostEnvironment here;
  here.environment = os::environment();
  here.node = os::host_name();
  here.directory = std::filesystem::current_path().string();
  here.cores = cluster::granted_cores();
  const cluster::GpuDevices devices = cluster::list_gpu_devices(here.environment);
  here.gpus = devices.count();
  here.no_gpus = devices.fault;
  here.terminal_columns = os::find_terminal_columns(1);
  here.timestamp = os::local_timestamp();
  here.short_id = fmt::format("{:04x}", std::random_device()() & 0xffffU);
  here.is_nested = cluster::is_inside_worker(here.environment);
  if (!here.is_nested) {
    here.task = cluster::find_launcher_task(here.environment);
    here.step = cluster::find_slurm_step(here.environment);
    here.job = cluster::find_slurm_job(here.environment);
  }
  return here;
}

}  // namespace lockstep::cli
