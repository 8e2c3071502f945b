// SPDX-License-Identifier: Apache-2.0
#include "comm/store.h"

#include <fmt/format.h>

#include "base/text.h"
#include "comm/format_ranks.h"
#include "lockstep/error.h"
#include "os/socket.h"

namespace lockstep::comm {
namespace {

compat::StorePtr connect(const contract::WorkerPlace& place,
                         bool serves,
                         std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(place.master_port);
  options.isServer = serves;
  options.numWorkers = static_cast<size_t>(place.world_size);
  options.waitWorkers = false;
  options.timeout = timeout;
  compat::avoid_libuv(options);
  return c10::make_intrusive<c10d::TCPStore>(place.master_addr, options);
}

}  // namespace

compat::StorePtr join_store(const contract::WorkerPlace& place, std::chrono::milliseconds timeout) {
  const std::string endpoint = fmt::format("{}:{}", place.master_addr, place.master_port);
  const bool serves = place.rank == 0 && !place.has_agent_store;
  if (serves && !os::is_port_free("0.0.0.0", place.master_port)) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot serve the gang on {}: the port is in use", endpoint))
        .fact("port", std::to_string(place.master_port), "MASTER_PORT")
        .hint("start with lockstep run, which finds a free port, or set another MASTER_PORT");
  }
  // A client of libtorch that comes before the server listens sleeps a whole second; wait here.
  if (!serves && !os::wait_for_port(place.master_addr, place.master_port, timeout)) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot reach rank 0 on {}", endpoint))
        .fact("waited",
              format_duration(std::chrono::duration<double>(timeout).count()),
              fmt::format("rank {}", place.rank))
        .hint("check that rank 0 runs, and that MASTER_ADDR is an address that this node reaches");
  }
  try {
    return connect(place, serves, timeout);
  } catch (const std::exception& fault) {
    const std::string reason = fault.what();
    throw Error(ExitCode::Unavailable, fmt::format("cannot join the gang's store on {}", endpoint))
        .fact("reason", reason.substr(0, reason.find('\n')), "libtorch's TCPStore");
  }
}

void await_all(const compat::StorePtr& store,
               const contract::WorkerPlace& place,
               std::chrono::milliseconds timeout) {
  // torchrun's agent keeps one store for all attempts.
  const std::string prefix = fmt::format("attempt-{}", place.attempt);
  const std::string complete = prefix + "/all-here";
  const auto here = [&prefix](int rank) {
    return fmt::format("{}/here-{}", prefix, rank);
  };
  store->set(here(place.rank), std::vector<uint8_t>{1});
  if (store->add(prefix + "/count", 1) == place.world_size) {
    store->set(complete, std::vector<uint8_t>{1});
  }
  try {
    store->wait({complete}, timeout);
  } catch (const std::exception& fault) {
    const std::string reason = fault.what();
    Error error(ExitCode::Unavailable, "cannot bring the gang together: not all workers came");
    try {
      // Through a line of its own: that of `store` may still get the answer that was waited for.
      const compat::StorePtr other = connect(place, false, std::chrono::seconds(5));
      std::vector<int> missing;
      for (int rank = 0; rank < place.world_size; ++rank) {
        if (!other->check({here(rank)})) {
          missing.push_back(rank);
        }
      }
      error.fact("missing", fmt::format("{} of {}", format_ranks(missing), place.world_size));
    } catch (const std::exception&) {
      error.fact("reason", reason.substr(0, reason.find('\n')), "libtorch's TCPStore");
    }
    throw std::move(error)
        .fact("waited",
              format_duration(std::chrono::duration<double>(timeout).count()),
              fmt::format("--timeout, rank {}", place.rank))
        .hint("look at what these workers do before they join, or give them a longer --timeout");
  }
}

}  // namespace lockstep::comm
