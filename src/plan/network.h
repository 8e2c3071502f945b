// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/interfaces.h"

// Which network a gang uses, from what its nodes offer and what was tried. Pure.
namespace lockstep::plan {

// What one node offers.
struct NetworkOffer {
  std::string node;     // its name
  std::string machine;  // the same for two agents of one machine (os::machine_identity)
  std::vector<cluster::Address> addresses;
};

// A way in which all nodes may reach each other: one address of each.
struct Network {
  std::string name;          // "10.12.0.0/24", or "ib0" where the nodes' prefixes differ
  std::vector<int> members;  // per node: which of its addresses
  int speed_mbps = 0;        // of the slowest member; 0: not told
  bool is_rdma = false;
  bool is_v6 = false;
  bool is_loopback = false;

  bool operator==(const Network&) const = default;
};

// Every network in which each node has an address, the best one first: RDMA, speed, IPv4 before
// IPv6, the kernel's order. Loopback counts only where all agents are on one machine. `allowed`
// (names of interfaces, empty: all) cuts the choice.
std::vector<Network> find_networks(std::span<const NetworkOffer> offers,
                                   std::span<const std::string> allowed);

// What messages call it: "10.12.0.0/24 (fab0)"; "ib0" where the network has the interface's name.
std::string label_of(std::span<const NetworkOffer> offers, const Network& network);

// Whom node `from` of `count` tries: all others in a small gang; in one of more than 32 the nodes
// at distances 1, 2, 4 ... so that the tried pairs connect all nodes in few steps.
std::vector<int> peers_to_try(int from, int count);

// One try from one node to another over one network.
struct Trial {
  int from = 0;
  int to = 0;
  int network = 0;
  std::string fault;  // empty: it worked; else "no answer", "refused", "another program answers"
  int milliseconds = 0;

  bool operator==(const Trial&) const = default;
};

struct NetworkChoice {
  std::optional<int> network;        // nothing: no network connects all
  std::string reason;                // one sentence: what was chosen and why
  std::vector<std::string> details;  // one line per network that does not work: which pair, why
};

NetworkChoice choose_network(std::span<const NetworkOffer> offers,
                             std::span<const Network> networks,
                             std::span<const Trial> trials);

}  // namespace lockstep::plan
