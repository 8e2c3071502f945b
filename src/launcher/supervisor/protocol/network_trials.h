// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/cluster/interfaces.h"
#include "launcher/plan/network.h"
#include "launcher/supervisor/protocol/messages.h"

namespace lockstep::supervisor {

// Chooses the network of a run on several nodes: which addresses each node probes, the results, and
// the choice. Without I/O. Nodes are identified by their slots (`slot`).
class NetworkTrials {
 public:
  struct Participant {
    plan::NetworkOffer offer;
    int probe_port = 0;
  };

  // Starts a first round with these nodes. `allowed` lists the permitted interfaces; empty: all.
  // Results of earlier rounds that are still in transit are ignored.
  void begin(std::vector<Participant> nodes, std::span<const std::string> allowed);

  // Starts a second round with a longer timeout, in case packets were lost. False if this was the
  // second round, or if there is no network to try.
  bool begin_again();

  // Whether there is a network in which all nodes have an address.
  bool has_candidates() const { return !networks_.empty(); }

  Probe probe_for(int slot) const;

  // False if the results belong to another round.
  bool take(const Probed& probed);

  plan::NetworkChoice choose() const;

  const std::vector<plan::NetworkOffer>& offers() const { return offers_; }
  const std::vector<plan::Network>& networks() const { return networks_; }
  const std::vector<plan::Trial>& trials() const { return trials_; }

  // The address of a node in a network that choose() has returned.
  const cluster::Address& address_of(int slot, int network) const;

 private:
  std::vector<plan::NetworkOffer> offers_;
  std::vector<std::string> allowed_;
  std::vector<int> probe_ports_;
  std::vector<plan::Network> networks_;
  std::vector<plan::Trial> trials_;
  int round_ = 0;
  bool is_second_ = false;
};

}  // namespace lockstep::supervisor
