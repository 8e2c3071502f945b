// SPDX-License-Identifier: Apache-2.0
//
// All files are in the rendezvous directory, private to the user:
//
//   NAME.json                     address and keys, from the leader (rendezvous.cpp)
//   NAME.HOST.order-LOCAL.json    the spec for one process, as an encoded Start
//
// HOST is part of the name because the directory can be shared by all nodes.
#include "launcher/supervisor/node/become_worker.h"

#include <chrono>
#include <filesystem>
#include <fmt/format.h>
#include <system_error>
#include <thread>
#include <utility>

#include "common/cluster/interfaces.h"
#include "common/contract/worker_env.h"
#include "common/os/files.h"
#include "common/os/host.h"
#include "common/os/process.h"
#include "launcher/supervisor/node/placement.h"
#include "launcher/supervisor/protocol/messages.h"
#include "launcher/supervisor/protocol/rendezvous.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;

// One file per process: each removes its own after reading it, so that no file of this run is left
// to mislead the next one.
fs::path spec_file(const plan::LaunchPlan& plan,
                   int local_rank,
                   const os::Environment& environment) {
  plan::Rendezvous mine = plan.rendezvous;
  mine.name += fmt::format(".{}.order-{}", os::host_name(), local_rank);
  return rendezvous_path(mine, environment);
}

}  // namespace

void clear_specs(const plan::LaunchPlan& plan, const os::Environment& environment) {
  for (int local = 1; local < plan.rendezvous.local_world_size; ++local) {
    std::error_code ignored;
    fs::remove(spec_file(plan, local, environment), ignored);
  }
}

void post_spec(const plan::LaunchPlan& plan,
               const plan::NodeSpec& spec,
               const os::Environment& environment) {
  const std::string text = encode(Command(Start{spec}));
  for (int local = 1; local < plan.rendezvous.local_world_size; ++local) {
    const fs::path file = spec_file(plan, local, environment);
    os::make_directories(file.parent_path());
    os::write_private(file, text);
  }
}

// Polling, because the processes have no relation that could notify them: the outer launcher is
// their parent. write_private() replaces the file atomically, so a file that exists is complete.
plan::NodeSpec wait_for_spec(const plan::LaunchPlan& plan, const os::Environment& environment) {
  constexpr std::chrono::milliseconds kLookAgain(5);
  const fs::path file = spec_file(plan, plan.rendezvous.local_rank, environment);
  const auto until = std::chrono::steady_clock::now() +
                     std::chrono::duration<double>(plan.start_timeout_seconds.value);
  while (std::chrono::steady_clock::now() < until) {
    if (const auto text = os::find_private(file)) {
      std::error_code ignored;
      fs::remove(file, ignored);
      return std::get<Start>(decode_command(*text)).spec;
    }
    std::this_thread::sleep_for(kLookAgain);
  }
  throw Error(
      ExitCode::Unavailable,
      fmt::format("rank {} timed out waiting for its launch instructions from local rank 0 on {}",
                  plan.rendezvous.rank,
                  os::host_name()))
      .fact("missing", file.string())
      .fact("waited", fmt::format("{} s", plan.start_timeout_seconds.value));
}

// The ranks of the outer launcher win over those of the spec: other tasks, or an MPI library in the
// program, know this process by them. `worker_specs` has the entries of the leader's count; min()
// guards against a node on which the counts differ.
void become_worker(const plan::LaunchPlan& plan,
                   const plan::NodeSpec& spec,
                   const os::Environment& environment) {
  const plan::Rendezvous& mine = plan.rendezvous;
  const std::vector<contract::WorkerSpec> worker_specs = spec.worker_specs();
  contract::WorkerSpec worker_spec =
      worker_specs.at(std::min(static_cast<size_t>(mine.local_rank), worker_specs.size() - 1));
  worker_spec.roce_gid_index = worker_spec.interface.empty()
                                   ? std::nullopt
                                   : cluster::find_roce_gid_index(worker_spec.interface);
  worker_spec.rank = mine.rank;
  worker_spec.world_size = mine.world_size;
  worker_spec.local_rank = mine.local_rank;
  worker_spec.local_world_size = mine.local_world_size;
  os::Environment own = environment;
  own.erase(std::string(contract::kSecret));
  own.erase(std::string(contract::kRendezvous));
  const std::string executable = require_program(spec.command, own);
  os::become(executable,
             worker_arguments(spec, worker_spec),
             plan::task_environment(spec, worker_spec, own));
}

}  // namespace lockstep::supervisor
