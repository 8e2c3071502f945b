// SPDX-License-Identifier: Apache-2.0
//
// Candidates come from three rules, from the most to the least certain:
//
//   same subnet          "10.12.0.0/24": the usual case
//   same interface name  "ib0": point-to-point links and routed fabrics, one subnet per node
//   first of each node   the last resort, routed networks with different interface names
//
// Each rule yields one address per node. Whether the nodes reach each other is not derived from the
// addresses but tried (Prober); a candidate works if every tried connection succeeds.
#include "launcher/plan/network.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "common/base/text.h"
#include "common/os/network.h"

namespace lockstep::plan {
namespace {

using cluster::Address;

constexpr int kNone = -1;
constexpr std::string_view kFirstOfEach = "the first address of each node";

// Bridges of container engines and hypervisors: every host has the same subnet there, and it does
// not reach other hosts.
bool is_of_containers(const std::string& interface) {
  constexpr std::array<std::string_view, 9> kPrefixes = {
      "docker", "virbr", "br-", "podman", "cni", "flannel", "lxcbr", "lxdbr", "veth"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(), [&](std::string_view prefix) {
    return interface.starts_with(prefix);
  });
}

// Selects the address that represents a node in a network; ties go to the earlier one.
bool is_better(const Address& one, const Address& other) {
  return std::tie(one.is_rdma, one.speed_mbps) > std::tie(other.is_rdma, other.speed_mbps);
}

// A network is identified by its members: a later rule that selects the same addresses as an
// earlier one adds nothing.
class Finder {
 public:
  Finder(std::span<const NetworkOffer> offers, std::span<const std::string> allowed)
      : offers_(offers), allowed_(allowed), is_one_machine_(are_on_one_machine()) {}

  std::vector<Network> find() {
    collect({.name_of = [](const Address& address) {
      return os::find_network(address.text, address.prefix).value_or("");
    }});
    collect({.name_of = [](const Address& address) {
      return address.is_v6 ? address.interface + ", IPv6" : address.interface;
    }});
    for (const bool is_v6 : {false, true}) {
      collect({.name_of =
                   [is_v6](const Address& address) {
                     const bool counts = address.is_v6 == is_v6 && !address.is_loopback &&
                                         !is_of_containers(address.interface);
                     return counts ? std::string(kFirstOfEach) + (is_v6 ? ", IPv6" : "") : "";
                   },
               .takes_the_best = false});
    }
    std::stable_sort(found_.begin(), found_.end(), [&](const Network& one, const Network& other) {
      return spec_of(one) < spec_of(other);
    });
    return std::move(found_);
  }

 private:
  // An agent without a machine identity is never taken to be on the same machine: loopback would
  // then be chosen, and fail.
  bool are_on_one_machine() const {
    return offers_.size() == 1 ||
           std::all_of(offers_.begin(), offers_.end(), [&](const NetworkOffer& offer) {
             return !offer.machine.empty() && offer.machine == offers_.front().machine;
           });
  }

  bool may_be_used(const Address& address) const {
    return (is_one_machine_ || !address.is_loopback) &&
           (allowed_.empty() ||
            std::find(allowed_.begin(), allowed_.end(), address.interface) != allowed_.end());
  }

  const Address& member(const Network& network, size_t node) const {
    return offers_[node].addresses[static_cast<size_t>(network.members[node])];
  }

  // Groups addresses by name; a name that every node has is a network. An empty name is skipped.
  struct Rule {
    std::function<std::string(const Address&)> name_of;
    bool takes_the_best = true;  // of the addresses of a node; else the first
  };
  using Members = std::map<std::string, std::vector<int>>;

  void collect(const Rule& rule) {
    Members members;
    for (size_t node = 0; node < offers_.size(); ++node) {
      for (size_t i = 0; i < offers_[node].addresses.size(); ++i) {
        if (may_be_used(offers_[node].addresses[i])) {
          enter(members, node, i, rule);
        }
      }
    }
    for (auto& [name, chosen] : members) {
      if (!name.empty()) {
        add(name, std::move(chosen));
      }
    }
  }

  // Rows are created by the first node only. A name that it does not have cannot become a network,
  // and with thousands of nodes the table stays as small as the list of one node.
  void enter(Members& members, size_t node, size_t number, const Rule& rule) const {
    const std::vector<Address>& addresses = offers_[node].addresses;
    const std::string name = rule.name_of(addresses[number]);
    if (node == 0) {
      members.try_emplace(name, offers_.size(), kNone);
    }
    const auto row = members.find(name);
    if (row == members.end()) {
      return;  // a network must include the first node
    }
    int& mine = row->second[node];
    if (mine == kNone || (rule.takes_the_best &&
                          is_better(addresses[number], addresses[static_cast<size_t>(mine)]))) {
      mine = static_cast<int>(number);
    }
  }

  void add(const std::string& name, std::vector<int> members) {
    const bool is_everybodys = std::find(members.begin(), members.end(), kNone) == members.end();
    const bool is_known = std::any_of(found_.begin(), found_.end(), [&](const Network& network) {
      return network.members == members;
    });
    if (!is_everybodys || is_known) {
      return;
    }
    Network network{.name = name, .members = std::move(members)};
    const Address& first = member(network, 0);
    network.is_v6 = first.is_v6;
    network.is_loopback = first.is_loopback;
    network.is_rdma = true;
    network.speed_mbps = first.speed_mbps;
    for (size_t node = 0; node < offers_.size(); ++node) {
      network.is_rdma = network.is_rdma && member(network, node).is_rdma;
      network.speed_mbps = std::min(network.speed_mbps, member(network, node).speed_mbps);
    }
    if (!has_address_twice(network)) {
      found_.push_back(std::move(network));
    }
  }

  // Two hosts with the same address, as on docker0: a connection to it stays on the local host.
  bool has_address_twice(const Network& network) const {
    std::unordered_map<std::string_view, size_t> owners;
    for (size_t node = 0; node < offers_.size(); ++node) {
      const auto [owner, is_new] = owners.try_emplace(member(network, node).text, node);
      const std::string& machine = offers_[owner->second].machine;
      if (!is_new && (machine.empty() || machine != offers_[node].machine)) {
        return true;
      }
    }
    return false;
  }

  // Sort key; the best network has the smallest one. Elements, false before true: container bridge,
  // fallback rule, not loopback, not RDMA, speed (negative: the fastest first), IPv6, order of the
  // kernel on the first node.
  using Order = std::tuple<bool, bool, bool, bool, int, bool, int>;
  Order spec_of(const Network& network) const {
    bool has_bridge = false;
    for (size_t node = 0; node < offers_.size() && !has_bridge; ++node) {
      has_bridge = is_of_containers(member(network, node).interface);
    }
    return {has_bridge,
            network.name.starts_with(kFirstOfEach),
            !network.is_loopback,
            !network.is_rdma,
            -network.speed_mbps,
            network.is_v6,
            network.members.front()};
  }

  std::span<const NetworkOffer> offers_;
  std::span<const std::string> allowed_;
  bool is_one_machine_;
  std::vector<Network> found_;
};

std::string speed_text(int mbps) {
  return mbps < 1000 ? fmt::format("{} Mb/s", mbps) : fmt::format("{:g} Gb/s", mbps / 1000.0);
}

// The results of all trials, sorted for lookup by pair.
class Outcomes {
 public:
  explicit Outcomes(std::span<const Trial> trials) {
    for (const Trial& trial : trials) {
      sorted_.push_back(&trial);
    }
    // If a pair was tried several times, the successful trial is first.
    std::sort(sorted_.begin(), sorted_.end(), [](const Trial* one, const Trial* other) {
      return key_of(*one) < key_of(*other);
    });
  }

  // Null if the pair was not tried.
  const Trial* find(int network, int from, int to) const {
    const auto found = std::lower_bound(sorted_.begin(),
                                        sorted_.end(),
                                        std::tuple(network, from, to),
                                        [](const Trial* one, auto key) {
                                          return std::tuple(one->network, one->from, one->to) < key;
                                        });
    const bool is_it = found != sorted_.end() && (*found)->network == network &&
                       (*found)->from == from && (*found)->to == to;
    return is_it ? *found : nullptr;
  }

 private:
  static std::tuple<int, int, int, bool> key_of(const Trial& trial) {
    return {trial.network, trial.from, trial.to, !trial.fault.empty()};
  }

  std::vector<const Trial*> sorted_;
};

// The failures of one network.
struct Fault {
  int failed = 0;  // pairs
  int pairs = 0;
  int from = 0;  // the first pair that failed
  int to = 0;
  std::string what;

  void count(int sender, int receiver, const Trial* trial) {
    constexpr std::string_view kNotTried = "not tried";
    ++pairs;
    if (trial != nullptr && trial->fault.empty()) {
      return;
    }
    // A failed trial is more informative than a missing one.
    if (failed == 0 || (what == kNotTried && trial != nullptr)) {
      from = sender;
      to = receiver;
      what = trial != nullptr ? trial->fault : kNotTried;
    }
    ++failed;
  }
};

// Each ordered pair of peers_to_try() must have a successful trial. A missing one counts as a
// failure: its agent may have been too slow to answer.
Fault check(const Outcomes& outcomes, int network, int nodes) {
  Fault fault;
  for (int from = 0; from < nodes; ++from) {
    for (const int to : peers_to_try(from, nodes)) {
      fault.count(from, to, outcomes.find(network, from, to));
    }
  }
  return fault;
}

// Why the first working network is better than the second.
std::string advantage(const Network& first, const Network& second) {
  if (first.is_rdma != second.is_rdma) {
    return "the only one with RDMA";
  }
  if (first.speed_mbps != second.speed_mbps) {
    return fmt::format("the fastest ({})", speed_text(first.speed_mbps));
  }
  return "the first";
}

std::string reason_for(std::span<const NetworkOffer> offers,
                       std::span<const Network> networks,
                       const std::vector<int>& working) {
  const size_t nodes = offers.size();
  if (networks.empty()) {
    return fmt::format("the {} nodes have no common network", nodes);
  }
  if (working.empty()) {
    return networks.size() == 1
               ? fmt::format("the only network of the {} nodes does not connect them", nodes)
               : fmt::format("none of {} networks connects all {} nodes", networks.size(), nodes);
  }
  const Network& chosen = networks[static_cast<size_t>(working.front())];
  const std::string label = label_of(offers, chosen);
  if (nodes == 1) {
    return label + ": there is one node";
  }
  if (chosen.is_loopback) {
    return fmt::format("{}: all {} nodes are on one machine", label, nodes);
  }
  if (networks.size() == 1) {
    return fmt::format("{}: the only network of all {} nodes", label, nodes);
  }
  if (working.size() == 1) {
    return fmt::format("{}: the only one of {} networks on which all {} nodes reach each other",
                       label,
                       networks.size(),
                       nodes);
  }
  return fmt::format("{}: {} of {} networks on which all {} nodes reach each other",
                     label,
                     advantage(chosen, networks[static_cast<size_t>(working[1])]),
                     working.size(),
                     nodes);
}

}  // namespace

std::string label_of(std::span<const NetworkOffer> offers, const Network& network) {
  constexpr size_t kMaxNames = 3;
  std::vector<std::string> names;
  for (size_t node = 0; node < offers.size() && names.size() <= kMaxNames; ++node) {
    const auto& address = offers[node].addresses[static_cast<size_t>(network.members[node])];
    if (std::find(names.begin(), names.end(), address.interface) == names.end()) {
      names.push_back(address.interface);
    }
  }
  if (names.size() == 1 && (network.name + ",").starts_with(names.front() + ",")) {
    return network.name;
  }
  if (names.size() > kMaxNames) {
    names.back() = "...";
  }
  return fmt::format("{} ({})", network.name, join(names, ", "));
}

std::vector<Network> find_networks(std::span<const NetworkOffer> offers,
                                   std::span<const std::string> allowed) {
  return offers.empty() ? std::vector<Network>() : Finder(offers, allowed).find();
}

// All pairs would be count^2 connections: a billion for 32,768 nodes. With distances 1, 2, 4 ...
// each node tries log2(count) others, every node is tried from as many, and a node or a link that
// is down appears in several trials.
std::vector<int> peers_to_try(int from, int count) {
  constexpr int kSmall = 32;
  std::vector<int> peers;
  for (int distance = 1; distance < count; distance += count <= kSmall ? 1 : distance) {
    peers.push_back((from + distance) % count);
  }
  return peers;
}

NetworkChoice choose_network(std::span<const NetworkOffer> offers,
                             std::span<const Network> networks,
                             std::span<const Trial> trials) {
  const Outcomes outcomes(trials);
  NetworkChoice choice;
  std::vector<int> working;
  for (size_t i = 0; i < networks.size(); ++i) {
    const auto fault = check(outcomes, static_cast<int>(i), static_cast<int>(offers.size()));
    if (fault.failed == 0) {
      working.push_back(static_cast<int>(i));
      continue;
    }
    choice.details.push_back(fmt::format("{}: {} -> {} {} ({} of {} pairs failed)",
                                         label_of(offers, networks[i]),
                                         offers[static_cast<size_t>(fault.from)].node,
                                         offers[static_cast<size_t>(fault.to)].node,
                                         fault.what,
                                         fault.failed,
                                         fault.pairs));
  }
  if (!working.empty()) {
    choice.network = working.front();
  }
  choice.reason = reason_for(offers, networks, working);
  return choice;
}

}  // namespace lockstep::plan
