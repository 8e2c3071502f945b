// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/cluster/interfaces.h"

// Selects the network of a run from the addresses of its nodes and the results of connection
// trials. Pure functions.
namespace lockstep::plan {

// The addresses of one node.
struct NetworkOffer {
  std::string node;     // its name
  std::string machine;  // equal for two agents on the same machine (os::machine_identity)
  std::vector<cluster::Address> addresses;
};

// One address of each node, through which the nodes might reach each other.
struct Network {
  std::string name;          // "10.12.0.0/24", or "ib0" if the prefixes of the nodes differ
  std::vector<int> members;  // per node: index of its address
  int speed_mbps = 0;        // of the slowest member; 0: unknown
  bool is_rdma = false;
  bool is_v6 = false;
  bool is_loopback = false;

  bool operator==(const Network&) const = default;
};

// All networks in which each node has an address, best first: RDMA, speed, IPv4 before IPv6, the
// order of the kernel. Loopback counts only if all agents are on one machine. `allowed` restricts
// the interfaces (empty: all).
std::vector<Network> find_networks(std::span<const NetworkOffer> offers,
                                   std::span<const std::string> allowed);

// The name in messages: "10.12.0.0/24 (fab0)", or "ib0" if the network is named after its
// interface.
std::string label_of(std::span<const NetworkOffer> offers, const Network& network);

// The nodes to which node `from` of `count` connects in the trial. Up to 32 nodes: all others.
// More: those at distances 1, 2, 4, ..., so that the tried pairs connect all nodes in few hops.
std::vector<int> peers_to_try(int from, int count);

// One connection attempt between two nodes over one network.
struct Trial {
  int from = 0;
  int to = 0;
  int network = 0;
  std::string fault;  // empty: success; else "no answer", "refused", "another program answers"
  int milliseconds = 0;

  bool operator==(const Trial&) const = default;
};

struct NetworkChoice {
  std::optional<int> network;        // nothing: no network connects all nodes
  std::string reason;                // one sentence: what was chosen and why
  std::vector<std::string> details;  // one line per failed network: which pair, why
};

NetworkChoice choose_network(std::span<const NetworkOffer> offers,
                             std::span<const Network> networks,
                             std::span<const Trial> trials);

}  // namespace lockstep::plan
