// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "agent/messages.h"
#include "cluster/interfaces.h"
#include "plan/network.h"

namespace lockstep::agent {

// Which network a gang of several nodes uses: whom each node is to try, what came of it, and what
// follows. Pure; nodes are known by their seats.
class NetworkTrials {
 public:
  struct Node {
    plan::NetworkOffer offer;
    int probe_port = 0;
  };

  // With these nodes; `allowed` (interfaces, empty: all) cuts the choice. What is still on the way
  // from an earlier round counts no more.
  void begin(std::vector<Node> nodes, std::span<const std::string> allowed);

  // A second round, with more patience, for a packet that was lost. False when there was one
  // already, or there is no network to try.
  bool begin_again();

  // Whether there is a network in which all nodes have an address.
  bool has_candidates() const { return !networks_.empty(); }

  Probe order_for(int seat) const;

  // False when it answers another round.
  bool take(const Probed& probed);

  plan::NetworkChoice choose() const;

  const std::vector<plan::NetworkOffer>& offers() const { return offers_; }
  const std::vector<plan::Network>& networks() const { return networks_; }
  const std::vector<plan::Trial>& trials() const { return trials_; }

  // Of a node on a network that choose() has named.
  const cluster::Address& address_of(int seat, int network) const;

 private:
  std::vector<plan::NetworkOffer> offers_;
  std::vector<std::string> allowed_;
  std::vector<int> probe_ports_;
  std::vector<plan::Network> networks_;
  std::vector<plan::Trial> trials_;
  int round_ = 0;
  bool is_second_ = false;
};

}  // namespace lockstep::agent
