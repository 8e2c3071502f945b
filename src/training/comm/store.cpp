// SPDX-License-Identifier: Apache-2.0
#include "training/comm/store.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/socket.h"
#include "lockstep/error.h"
#include "training/comm/format_ranks.h"

namespace lockstep::comm {
namespace {

compat::StorePtr connect(const contract::WorkerSpec& spec,
                         bool serves,
                         std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(spec.master_port);
  options.isServer = serves;
  options.numWorkers = static_cast<size_t>(spec.world_size);
  options.waitWorkers = false;
  options.timeout = timeout;
  compat::avoid_libuv(options);
  return c10::make_intrusive<c10d::TCPStore>(spec.master_addr, options);
}

// The agent of torchrun keeps one store for all attempts, so keys must contain the attempt.
std::string in_attempt(const contract::WorkerSpec& spec, std::string_view name) {
  return fmt::format("attempt-{}/{}", spec.attempt, name);
}

// Key that marks the arrival of a rank.
std::string here(const contract::WorkerSpec& spec, int rank) {
  return in_attempt(spec, fmt::format("here-{}", rank));
}

// Ranks that have not arrived; empty if the store no longer responds. Uses a connection of its own,
// because a late response to the timed-out request may still arrive on the first one.
std::vector<int> find_missing(const contract::WorkerSpec& spec) {
  std::vector<int> missing;
  try {
    const compat::StorePtr store = connect(spec, false, std::chrono::seconds(5));
    for (int rank = 0; rank < spec.world_size; ++rank) {
      if (!store->check({here(spec, rank)})) {
        missing.push_back(rank);
      }
    }
  } catch (const std::exception& fault) {
    log::warn("cannot determine the missing ranks: {}", fault.what());
  }
  return missing;
}

}  // namespace

compat::StorePtr join_store(const contract::WorkerSpec& spec, std::chrono::milliseconds timeout) {
  const std::string endpoint = fmt::format("{}:{}", spec.master_addr, spec.master_port);
  const bool serves = spec.rank == 0 && !spec.has_agent_store;
  if (serves && !os::is_port_free("0.0.0.0", spec.master_port)) {
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot start the rendezvous on {}: the port is in use", endpoint))
        .fact("port", std::to_string(spec.master_port), "MASTER_PORT")
        .hint("start with lockstep run, which finds a free port, or set another MASTER_PORT");
  }
  // A client of libtorch that connects before the server listens sleeps for a whole second, so wait
  // for the port here.
  if (!serves && !os::wait_for_port(spec.master_addr, spec.master_port, timeout)) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot reach rank 0 on {}", endpoint))
        .fact("waited",
              format_duration(std::chrono::duration<double>(timeout).count()),
              fmt::format("rank {}", spec.rank))
        .hint("check that rank 0 is running and that this node can reach MASTER_ADDR");
  }
  try {
    return connect(spec, serves, timeout);
  } catch (const std::exception& fault) {
    const std::string reason = fault.what();
    throw Error(ExitCode::Unavailable,
                fmt::format("cannot connect to the rendezvous on {}", endpoint))
        .fact("reason", reason.substr(0, reason.find('\n')), "libtorch's TCPStore");
  }
}

// Keys, all below "attempt-N/": here-RANK is set by each worker and serves only to name the missing
// ones; count is incremented by each; all-here is set by the worker that completes count. Every
// worker waits for this one key, instead of world_size keys.
void await_all(const compat::StorePtr& store,
               const contract::WorkerSpec& spec,
               std::chrono::milliseconds timeout) {
  const auto begun = std::chrono::steady_clock::now();
  std::string reason;
  try {
    const std::string complete = in_attempt(spec, "all-here");
    store->set(here(spec, spec.rank), std::vector<uint8_t>{1});
    if (store->add(in_attempt(spec, "count"), 1) == spec.world_size) {
      store->set(complete, std::vector<uint8_t>{1});
    }
    store->wait({complete}, timeout);
    return;
  } catch (const std::exception& fault) {
    reason = fault.what();
    reason.resize(std::min(reason.find('\n'), reason.size()));
  }
  // libtorch throws after a timeout and after a lost connection; types and texts differ between its
  // versions. The elapsed time distinguishes the two.
  if (std::chrono::steady_clock::now() - begun < timeout * 9 / 10) {
    throw Error(ExitCode::Unavailable, "rendezvous failed: lost the connection to the store")
        .fact("reason", reason, "libtorch's TCPStore")
        .hint(spec.has_agent_store ? "check the last output of torchrun"
                                   : "check the last output of rank 0");
  }
  Error error(ExitCode::Unavailable, "rendezvous timed out: not all workers arrived");
  if (const std::vector<int> missing = find_missing(spec); !missing.empty()) {
    error.fact("missing", fmt::format("{} of {}", format_ranks(missing), spec.world_size));
  } else {
    error.fact("reason", reason, "libtorch's TCPStore");
  }
  throw std::move(error)
      .fact("waited",
            format_duration(std::chrono::duration<double>(timeout).count()),
            fmt::format("--timeout, rank {}", spec.rank))
      .hint("check what these workers do before they join, or increase --timeout");
}

}  // namespace lockstep::comm
