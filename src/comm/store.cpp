// SPDX-License-Identifier: Apache-2.0
#include "comm/store.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/log.h"
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

// torchrun's agent keeps one store for all attempts.
std::string in_attempt(const contract::WorkerPlace& place, std::string_view name) {
  return fmt::format("attempt-{}/{}", place.attempt, name);
}

// What a worker writes when it has come.
std::string here(const contract::WorkerPlace& place, int rank) {
  return in_attempt(place, fmt::format("here-{}", rank));
}

// Who has not come; nobody where the store tells no more. Through a line of its own: the one that
// has waited may still get its answer.
std::vector<int> find_missing(const contract::WorkerPlace& place) {
  std::vector<int> missing;
  try {
    const compat::StorePtr store = connect(place, false, std::chrono::seconds(5));
    for (int rank = 0; rank < place.world_size; ++rank) {
      if (!store->check({here(place, rank)})) {
        missing.push_back(rank);
      }
    }
  } catch (const std::exception& fault) {
    log::warn("cannot find out who is missing: {}", fault.what());
  }
  return missing;
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
  const auto begun = std::chrono::steady_clock::now();
  std::string reason;
  try {
    const std::string complete = in_attempt(place, "all-here");
    store->set(here(place, place.rank), std::vector<uint8_t>{1});
    if (store->add(in_attempt(place, "count"), 1) == place.world_size) {
      store->set(complete, std::vector<uint8_t>{1});
    }
    store->wait({complete}, timeout);
    return;
  } catch (const std::exception& fault) {
    reason = fault.what();
    reason.resize(std::min(reason.find('\n'), reason.size()));
  }
  if (std::chrono::steady_clock::now() - begun < timeout * 9 / 10) {
    throw Error(ExitCode::Unavailable, "cannot bring the gang together: its store is gone")
        .fact("reason", reason, "libtorch's TCPStore")
        .hint(place.has_agent_store ? "look at what torchrun said last"
                                    : "look at what rank 0 said last");
  }
  Error error(ExitCode::Unavailable, "cannot bring the gang together: not all workers came");
  if (const std::vector<int> missing = find_missing(place); !missing.empty()) {
    error.fact("missing", fmt::format("{} of {}", format_ranks(missing), place.world_size));
  } else {
    error.fact("reason", reason, "libtorch's TCPStore");
  }
  throw std::move(error)
      .fact("waited",
            format_duration(std::chrono::duration<double>(timeout).count()),
            fmt::format("--timeout, rank {}", place.rank))
      .hint("look at what these workers do before they join, or give them a longer --timeout");
}

}  // namespace lockstep::comm
