// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>

namespace lockstep::supervisor {

// A process of an attempt whose exit is reported: a worker, or the fork server of a node, which has
// no rank. Unique among all nodes of the attempt.
struct ProcessId {
  enum class Kind { Worker, ForkServer };

  Kind kind = Kind::Worker;
  int number = 0;  // rank of the worker, or slot of the node of the fork server

  static constexpr ProcessId worker(int rank) { return {Kind::Worker, rank}; }
  static constexpr ProcessId fork_server(int slot) { return {Kind::ForkServer, slot}; }

  constexpr bool is_worker() const { return kind == Kind::Worker; }

  // clang-tidy 14 takes the comparison with 0 that the compiler generates for ours.
  auto operator<=>(const ProcessId&) const = default;  // NOLINT(modernize-use-nullptr)
};

}  // namespace lockstep::supervisor
