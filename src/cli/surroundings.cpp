// SPDX-License-Identifier: Apache-2.0
#include "cli/surroundings.h"

#include <filesystem>
#include <fmt/format.h>
#include <random>

#include "cluster/cores.h"
#include "cluster/gpus.h"
#include "os/environment.h"
#include "os/host.h"
#include "os/socket.h"
#include "os/terminal.h"

namespace lockstep::cli {

plan::Surroundings read_surroundings() {
  plan::Surroundings here;
  here.environment = os::environment();
  here.node = os::host_name();
  here.directory = std::filesystem::current_path().string();
  here.cores = cluster::granted_cores();
  here.gpus = cluster::visible_gpus(here.environment);
  here.free_port = os::free_port();
  here.terminal_columns = os::find_terminal_columns(1);
  here.timestamp = os::local_timestamp();
  here.short_id = fmt::format("{:04x}", std::random_device()() & 0xffffU);
  return here;
}

}  // namespace lockstep::cli
