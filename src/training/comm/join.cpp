// SPDX-License-Identifier: Apache-2.0
#include "training/comm/join.h"

#include <array>
#include <chrono>
#include <fmt/format.h>
#include <thread>

#include "common/base/text.h"
#include "common/os/environment.h"
#include "lockstep/error.h"
#include "training/comm/hierarchical_join.h"
#include "training/comm/mpi.h"
#include "training/comm/nccl.h"
#include "training/comm/process_group.h"
#include "training/comm/shared_memory.h"
#include "training/comm/solo.h"
#include "training/comm/store.h"

namespace lockstep::comm {
namespace {

// A variable of Horovod: 0 disables the hierarchical all-reduce (node-first).
constexpr std::string_view kHierarchical = "HOROVOD_HIERARCHICAL_ALLREDUCE";

// Rank 0 serves the store. A worker that still reads from it when rank 0 exits would report a
// network failure, so rank 0 waits up to 5 s for the others.
void leave_together(const compat::StorePtr& store, const contract::WorkerSpec& spec) {
  constexpr const char* kKey = "leaving";
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  int64_t leaving = store->add(kKey, 1);
  while (spec.rank == 0 && leaving < spec.world_size &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    leaving = store->add(kKey, 0);
  }
}

// Order of "auto": node-first between several nodes, shared memory on one node, Gloo otherwise.
// Every step back is taken by all workers together: a join that fails returns null on all of them.
std::unique_ptr<Communicator> join_through_store(const compat::StorePtr& store,
                                                 const contract::WorkerSpec& spec,
                                                 const JoinOptions& options) {
  const bool is_flat_wanted = os::find_variable(os::environment(), kHierarchical) == "0";
  if (options.transport == "node-first" ||
      (options.transport == "auto" && spec.nodes > 1 && !is_flat_wanted)) {
    HierarchicalJoin joined = join_hierarchical(store, spec, options.timeout);
    if (joined.communicator != nullptr) {
      return std::move(joined.communicator);
    }
    if (options.transport == "node-first") {
      leave_together(store, spec);
      throw Error(ExitCode::Usage, "cannot use --transport node-first for these workers")
          .fact("found", joined.obstacle)
          .hint(spec.nodes == 1 ? "--transport shared-memory" : "--transport gloo");
    }
  }
  if (options.transport != "gloo" && spec.nodes == 1) {
    auto shared = join_shared_memory(*store, spec.rank, spec.world_size, options.timeout);
    if (shared != nullptr) {
      // The server of the store must not exit before all workers have read it.
      shared->barrier();
      return shared;
    }
  }
  if (options.transport == "shared-memory") {
    throw Error(ExitCode::Usage, "cannot use --transport shared-memory for these workers")
        .fact("found", "workers on several machines, or not enough space in /dev/shm")
        .hint("--transport gloo");
  }
  return join_gloo(store, spec, options.timeout);
}

// Joins the transport between the hosts, without NCCL.
Joined join_hosts(const cluster::Placement& placement, const JoinOptions& options);

}  // namespace

Joined join_process_group(const cluster::Placement& placement, const JoinOptions& options) {
  const std::vector<std::string> names = {
      "auto", "shared-memory", "gloo", "node-first", "mpi", "nccl"};
  if (std::find(names.begin(), names.end(), options.transport) == names.end()) {
    throw Error(ExitCode::Usage, fmt::format("unknown transport '{}'", options.transport))
        .fact("available", join(names, ", "))
        .hint(
            fmt::format("--transport {}", find_closest(options.transport, names).value_or("auto")));
  }
  const bool insists = options.transport == "nccl";
  if (insists && !options.device.is_cuda()) {
    throw Error(ExitCode::Usage, "cannot use NCCL: it needs GPUs, but this worker trains on a CPU")
        .fact("requested", "--transport nccl, or --collective nccl")
        .fact("device", options.device.str(), fmt::format("rank {}", placement.worker.rank))
        .hint("--transport auto");
  }
  if (placement.worker.world_size == 1) {
    return {std::make_unique<Solo>(), {}};
  }
  JoinOptions below = options;
  below.transport = insists ? "auto" : options.transport;
  Joined joined = join_hosts(placement, below);
  // The condition must be equal on all workers, so it must not depend on the device of this one.
  if (insists || (options.transport == "auto" && has_nccl())) {
    joined.communicator = join_nccl(std::move(joined.communicator), options.device, insists);
  }
  return joined;
}

namespace {

Joined join_hosts(const cluster::Placement& placement, const JoinOptions& options) {
  // `lockstep run` may itself run under mpirun. Its workers still use the store of lockstep.
  const bool is_mpis =
      placement.launched_by == cluster::LaunchedBy::OpenMpi ||
      (placement.launched_by == cluster::LaunchedBy::Slurm && placement.is_under_mpi);
  if (options.transport == "mpi" || (options.transport == "auto" && is_mpis)) {
    if (!is_mpis && !placement.is_under_mpi) {
      throw Error(ExitCode::Usage, "cannot use transport 'mpi': mpirun did not start this program")
          .hint("mpirun -np 2 PROGRAM, srun --mpi=pmix PROGRAM, or drop --transport mpi");
    }
    return {join_mpi(), {}};
  }
  const compat::StorePtr store = join_store(placement.worker, options.timeout);
  await_all(store, placement.worker, options.timeout);
  return {join_through_store(store, placement.worker, options), store};
}

}  // namespace

}  // namespace lockstep::comm
