// SPDX-License-Identifier: Apache-2.0
#include "comm/join.h"

#include <array>
#include <fmt/format.h>

#include "base/text.h"
#include "comm/mpi.h"
#include "comm/process_group.h"
#include "comm/shared_memory.h"
#include "comm/solo.h"
#include "comm/store.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

std::unique_ptr<Communicator> join_through_store(const contract::WorkerPlace& place,
                                                 const JoinOptions& options) {
  const compat::StorePtr store = join_store(place, options.timeout);
  if (options.transport != "gloo" && place.nodes == 1) {
    auto shared = join_shared_memory(*store, place.rank, place.world_size, options.timeout);
    if (shared != nullptr) {
      // Whoever serves the store must stay until all have read it.
      shared->barrier();
      return shared;
    }
  }
  if (options.transport == "shared-memory") {
    throw Error(ExitCode::Usage, "cannot use shared memory for this gang")
        .fact("found", "workers on several machines, or no room in /dev/shm")
        .hint("--transport gloo");
  }
  return join_gloo(store, place, options.timeout);
}

}  // namespace

std::unique_ptr<Communicator> join_gang(const cluster::Placement& placement,
                                        const JoinOptions& options) {
  const std::vector<std::string> names = {"auto", "shared-memory", "gloo", "mpi"};
  if (std::find(names.begin(), names.end(), options.transport) == names.end()) {
    throw Error(ExitCode::Usage, fmt::format("cannot use transport '{}'", options.transport))
        .fact("there are", join(names, ", "))
        .hint(
            fmt::format("--transport {}", find_closest(options.transport, names).value_or("auto")));
  }
  if (placement.place.world_size == 1) {
    return std::make_unique<Solo>();
  }
  const bool is_mpis = placement.origin == cluster::Origin::OpenMpi;
  if (options.transport == "mpi" || (options.transport == "auto" && is_mpis)) {
    if (!is_mpis && !placement.is_under_mpi) {
      throw Error(ExitCode::Usage, "cannot use transport 'mpi': mpirun did not start this program")
          .hint("mpirun -np 2 PROGRAM, or drop --transport mpi");
    }
    return join_mpi();
  }
  return join_through_store(placement.place, options);
}

}  // namespace lockstep::comm
