// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/network.h"

#include <ctime>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <queue>

namespace lockstep::plan {
namespace {

using cluster::Address;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Optional;

Address v4(const std::string& interface, const std::string& text, int prefix = 24) {
  return {.interface = interface, .text = text, .prefix = prefix};
}
Address v6(const std::string& interface, const std::string& text, int prefix = 64) {
  return {.interface = interface, .text = text, .prefix = prefix, .is_v6 = true};
}
Address fast(Address address, int speed) {
  address.speed_mbps = speed;
  return address;
}
Address rdma(Address address) {
  address.is_rdma = true;
  return address;
}
Address loopback() {
  return {.interface = "lo", .text = "127.0.0.1", .prefix = 8, .is_loopback = true};
}

// Machines n1, n2 ... with these addresses.
std::vector<NetworkOffer> offer(const std::vector<std::vector<Address>>& nodes) {
  std::vector<NetworkOffer> offers;
  for (const auto& addresses : nodes) {
    const std::string name = fmt::format("n{}", offers.size() + 1);
    offers.push_back({.node = name, .machine = "boot-" + name, .addresses = addresses});
  }
  return offers;
}

std::vector<std::string> names_of(const std::vector<Network>& networks) {
  std::vector<std::string> names;
  for (const Network& network : networks) {
    names.push_back(network.name);
  }
  return names;
}

std::vector<std::string> found(const std::vector<NetworkOffer>& offers,
                               const std::vector<std::string>& allowed = {}) {
  return names_of(find_networks(offers, allowed));
}

// Trials of all pairs over all networks; those over `broken` fail.
std::vector<Trial> try_all(int nodes, int networks, const std::vector<int>& broken = {}) {
  std::vector<Trial> trials;
  for (int network = 0; network < networks; ++network) {
    const bool fails = std::find(broken.begin(), broken.end(), network) != broken.end();
    for (int from = 0; from < nodes; ++from) {
      for (const int to : peers_to_try(from, nodes)) {
        trials.push_back(
            {.from = from, .to = to, .network = network, .fault = fails ? "no answer" : ""});
      }
    }
  }
  return trials;
}

NetworkChoice choose(const std::vector<NetworkOffer>& offers, const std::vector<int>& broken = {}) {
  const std::vector<Network> networks = find_networks(offers, {});
  const auto trials =
      try_all(static_cast<int>(offers.size()), static_cast<int>(networks.size()), broken);
  return choose_network(offers, networks, trials);
}

TEST(FindNetworks, NamesTheSubnetThatAllNodesShare) {
  const auto offers = offer({{loopback(), v4("mgmt0", "10.11.0.1"), v4("fab0", "10.12.0.1")},
                             {loopback(), v4("mgmt0", "10.11.0.2"), v4("fab0", "10.12.0.2")}});

  EXPECT_THAT(find_networks(offers, {}),
              ElementsAre(Network{.name = "10.11.0.0/24", .members = {1, 1}},
                          Network{.name = "10.12.0.0/24", .members = {2, 2}}));
}

TEST(FindNetworks, SharesASubnetWhateverItsInterfacesAreCalled) {
  EXPECT_THAT(found(offer({{v4("eth0", "10.0.0.1")}, {v4("eno1", "10.0.0.2")}})),
              ElementsAre("10.0.0.0/24"));
}

TEST(FindNetworks, FallsBackToTheInterfaceWherePrefixesDiffer) {
  EXPECT_THAT(found(offer({{v4("ib0", "10.1.0.1")}, {v4("ib0", "10.2.0.1")}})), ElementsAre("ib0"));
  // Some clouds give every machine its own network.
  EXPECT_THAT(found(offer({{v4("ens4", "10.0.0.2", 32)}, {v4("ens4", "10.0.0.3", 32)}})),
              ElementsAre("ens4"));
  EXPECT_THAT(found(offer({{v6("eth0", "fd00:1::1")}, {v6("eth0", "fd00:2::1")}})),
              ElementsAre("eth0, IPv6"));
}

TEST(FindNetworks, FallsBackToTheFirstAddressesWhereNothingElseIsShared) {
  const auto offers = offer({{v4("docker0", "172.17.0.1", 16), v4("eth0", "10.1.0.1")},
                             {v4("eno1", "10.2.0.1"), v4("eno2", "10.3.0.1")}});

  EXPECT_THAT(find_networks(offers, {}),
              ElementsAre(Network{.name = "the first address of each node", .members = {1, 0}}));
}

TEST(FindNetworks, LeavesOutWhatOneNodeLacks) {
  EXPECT_THAT(found(offer({{v4("eth0", "10.0.0.1"), v4("ib0", "10.1.0.1")},
                           {v4("eth0", "10.0.0.2"), v4("ib0", "10.1.0.2")},
                           {v4("eth0", "10.0.0.3")}})),
              ElementsAre("10.0.0.0/24"));
  EXPECT_THAT(found(offer({{v4("eth0", "10.0.0.1")}, {}})), IsEmpty());
  EXPECT_THAT(found(offer({{v4("eth0", "10.0.0.1")}, {v6("eth0", "fd00::1")}})), IsEmpty());
}

TEST(FindNetworks, TakesIpv6WhereThereIsNothingElse) {
  const auto networks =
      find_networks(offer({{v6("eth0", "fd00::1")}, {v6("eth0", "fd00::2")}}), {});

  EXPECT_THAT(networks,
              ElementsAre(Network{.name = "fd00::/64", .members = {0, 0}, .is_v6 = true}));
}

TEST(FindNetworks, PutsTheBestFirst) {
  const auto node = [](int i) {
    return std::vector<Address>{v6("eth0", fmt::format("fd00::{}", i)),
                                fast(v4("eth0", fmt::format("10.0.0.{}", i)), 1000),
                                fast(v4("eth1", fmt::format("10.1.0.{}", i)), 25000),
                                rdma(v4("ib0", fmt::format("10.2.0.{}", i))),
                                fast(v4("docker0", fmt::format("172.17.0.{}", i), 16), 100000),
                                v4("eth2", fmt::format("10.3.0.{}", i))};
  };

  EXPECT_THAT(found(offer({node(1), node(2)})),
              ElementsAre("10.2.0.0/24",
                          "10.1.0.0/24",
                          "10.0.0.0/24",
                          "10.3.0.0/24",
                          "fd00::/64",
                          "172.17.0.0/16"));
}

TEST(FindNetworks, IsAsFastAsItsSlowestMember) {
  const auto networks = find_networks(
      offer({{rdma(fast(v4("a", "10.0.0.1"), 100000))}, {fast(v4("a", "10.0.0.2"), 10000)}}), {});

  EXPECT_EQ(networks.at(0).speed_mbps, 10000);
  EXPECT_FALSE(networks.at(0).is_rdma);
}

TEST(FindNetworks, TakesTheFasterOfTwoAddressesInOneSubnetAndOffersTheOtherToo) {
  const auto node = [](int i) {
    return std::vector<Address>{fast(v4("eth0", fmt::format("10.0.0.{}", i)), 1000),
                                fast(v4("eth1", fmt::format("10.0.0.10{}", i)), 10000)};
  };

  EXPECT_THAT(find_networks(offer({node(1), node(2)}), {}),
              ElementsAre(Network{.name = "10.0.0.0/24", .members = {1, 1}, .speed_mbps = 10000},
                          Network{.name = "eth0", .members = {0, 0}, .speed_mbps = 1000}));
}

TEST(FindNetworks, KeepsToTheInterfacesThatAreAllowed) {
  const auto offers = offer({{v4("eth0", "10.0.0.1"), v4("ib0", "10.1.0.1")},
                             {v4("eth0", "10.0.0.2"), v4("ib0", "10.1.0.2")}});

  EXPECT_THAT(found(offers, {"ib0"}), ElementsAre("10.1.0.0/24"));
  EXPECT_THAT(found(offers, {"ib0", "eth0"}), ElementsAre("10.0.0.0/24", "10.1.0.0/24"));
  EXPECT_THAT(found(offers, {"ib"}), IsEmpty());
}

TEST(FindNetworks, LeavesOutAddressesThatTwoMachinesHave) {
  const auto docker = v4("docker0", "172.17.0.1", 16);
  auto offers = offer({{v4("eth0", "10.0.0.1"), docker}, {v4("eth0", "10.0.0.2"), docker}});
  EXPECT_THAT(found(offers), ElementsAre("10.0.0.0/24"));

  offers = offer({{docker}, {docker}});
  EXPECT_THAT(found(offers), IsEmpty());
  offers[0].machine = offers[1].machine = "";  // unknown
  EXPECT_THAT(found(offers), IsEmpty());
}

TEST(FindNetworks, HasLoopbackFirstForAgentsOfOneMachineOnly) {
  auto offers = offer({{loopback(), v4("eth0", "10.0.0.1")}, {loopback(), v4("eth0", "10.0.0.1")}});
  offers[1].machine = offers[0].machine;
  EXPECT_THAT(found(offers), ElementsAre("127.0.0.0/8", "10.0.0.0/24"));

  offers.push_back(offers[0]);
  offers[2].machine = "another";
  offers[2].addresses[1].text = "10.0.0.2";
  EXPECT_THAT(found(offers), ElementsAre("10.0.0.0/24"));

  EXPECT_THAT(found(offer({{loopback()}})), ElementsAre("127.0.0.0/8"));
  EXPECT_THAT(found({}), IsEmpty());
}

TEST(PeersToTry, AreAllOthersInASmallRun) {
  EXPECT_THAT(peers_to_try(0, 1), IsEmpty());
  EXPECT_THAT(peers_to_try(1, 4), ElementsAre(2, 3, 0));
  EXPECT_EQ(peers_to_try(31, 32).size(), 31U);
}

TEST(PeersToTry, AreFewAndReachEveryNodeInALargeRun) {
  EXPECT_THAT(peers_to_try(32, 33), ElementsAre(0, 1, 3, 7, 15, 31));
  for (const int count : {33, 100, 1000}) {
    std::vector<int> steps(static_cast<size_t>(count), -1);
    std::queue<int> next({0});
    steps[0] = 0;
    while (!next.empty()) {
      const int at = next.front();
      next.pop();
      for (const int to : peers_to_try(at, count)) {
        if (steps.at(static_cast<size_t>(to)) < 0) {
          steps[static_cast<size_t>(to)] = steps[static_cast<size_t>(at)] + 1;
          next.push(to);
        }
      }
    }
    EXPECT_THAT(steps, ::testing::Each(::testing::AllOf(::testing::Ge(0), ::testing::Le(10))));
  }
}

std::vector<NetworkOffer> four_nodes() {
  std::vector<std::vector<Address>> nodes;
  for (int i = 1; i <= 4; ++i) {
    nodes.push_back({v4("mgmt0", fmt::format("10.11.0.{}", i)),
                     v4("fab0", fmt::format("10.12.0.{}", i)),
                     v4("aux0", fmt::format("10.13.{}.1", i))});
  }
  return offer(nodes);
}

TEST(ChooseNetwork, TakesTheFirstOnWhichAllReachEachOther) {
  const NetworkChoice choice = choose(four_nodes(), {0, 2});

  EXPECT_THAT(choice.network, Optional(1));
  EXPECT_EQ(
      choice.reason,
      "10.12.0.0/24 (fab0): the only one of 3 networks on which all 4 nodes reach each other");
  EXPECT_THAT(choice.details,
              ElementsAre("10.11.0.0/24 (mgmt0): n1 -> n2 no answer (12 of 12 pairs failed)",
                          "aux0: n1 -> n2 no answer (12 of 12 pairs failed)"));
}

TEST(ChooseNetwork, NamesTheOnePairThatFails) {
  const auto offers = four_nodes();
  const auto networks = find_networks(offers, {});
  auto trials = try_all(4, 2, {});
  for (Trial& trial : trials) {
    if (trial.network == 0 && trial.from == 2 && trial.to == 1) {
      trial.fault = "refused";
    }
  }

  const NetworkChoice choice = choose_network(offers, networks, trials);

  EXPECT_THAT(choice.network, Optional(1));
  EXPECT_THAT(choice.details,
              ElementsAre("10.11.0.0/24 (mgmt0): n3 -> n2 refused (1 of 12 pairs failed)",
                          "aux0: n1 -> n2 not tried (12 of 12 pairs failed)"));
}

TEST(ChooseNetwork, CountsAPairThatWorksAtASecondTry) {
  const auto offers = offer({{v4("eth0", "10.0.0.1")}, {v4("eth0", "10.0.0.2")}});
  auto trials = try_all(2, 1, {0});
  for (const Trial& trial : try_all(2, 1)) {
    trials.push_back(trial);
  }

  EXPECT_THAT(choose_network(offers, find_networks(offers, {}), trials).network, Optional(0));
}

TEST(ChooseNetwork, SaysWhyItTookOneOfSeveral) {
  const auto offers_of = [](const Address& one, const Address& other) {
    std::vector<std::vector<Address>> nodes(2, {one, other});
    for (int i = 0; i < 2; ++i) {
      for (Address& address : nodes[static_cast<size_t>(i)]) {
        address.text += std::to_string(i + 1);
      }
    }
    return offer(nodes);
  };
  const Address slow = fast(v4("eth0", "10.0.0."), 1000);
  const Address eth = fast(v4("eth1", "10.1.0."), 25000);
  const std::string rest = " of 2 networks on which all 2 nodes reach each other";

  EXPECT_EQ(choose(offers_of(slow, eth)).reason,
            "10.1.0.0/24 (eth1): the fastest (25 Gb/s)" + rest);
  EXPECT_EQ(choose(offers_of(eth, rdma(slow))).reason,
            "10.0.0.0/24 (eth0): the only one with RDMA" + rest);
  EXPECT_EQ(choose(offers_of(slow, fast(eth, 1000))).reason,
            "10.0.0.0/24 (eth0): the first" + rest);
  EXPECT_EQ(choose(offers_of(fast(eth, 0), fast(slow, 100))).reason,
            "10.0.0.0/24 (eth0): the fastest (100 Mb/s)" + rest);
}

TEST(ChooseNetwork, SaysWhatIsSpecial) {
  EXPECT_EQ(choose(offer({{loopback()}})).reason, "127.0.0.0/8 (lo): there is one node");
  EXPECT_EQ(choose(offer({{v4("eth0", "10.0.0.1")}, {v4("eno1", "10.0.0.2")}})).reason,
            "10.0.0.0/24 (eth0, eno1): the only network of all 2 nodes");
  auto machine = offer({{loopback()}, {loopback()}});
  machine[1].machine = machine[0].machine;
  EXPECT_EQ(choose(machine).reason, "127.0.0.0/8 (lo): all 2 nodes are on one machine");
}

TEST(ChooseNetwork, TakesNoneWhereNoneConnectsAll) {
  const NetworkChoice none = choose(four_nodes(), {0, 1, 2});
  EXPECT_EQ(none.network, std::nullopt);
  EXPECT_EQ(none.reason, "none of 3 networks connects all 4 nodes");
  EXPECT_EQ(none.details.size(), 3U);

  const auto two = offer({{v4("eth0", "10.0.0.1")}, {v4("eth0", "10.0.0.2")}});
  EXPECT_EQ(choose(two, {0}).reason, "the only network of the 2 nodes does not connect them");
  EXPECT_EQ(choose(offer({{}, {}})).reason, "the 2 nodes have no common network");
}

TEST(ChooseNetwork, TakesMillisecondsForAThousandNodes) {
  std::vector<std::vector<Address>> nodes;
  for (int i = 0; i < 1000; ++i) {
    std::vector<Address> node = {loopback()};
    for (int network = 0; network < 8; ++network) {
      const std::string name = fmt::format("eth{}", network);
      node.push_back(v4(name, fmt::format("10.{}.{}.{}", network, i / 250, i % 250 + 1), 16));
      node.push_back(v6(name, fmt::format("fd00:{}::{:x}", network, i + 1)));
    }
    nodes.push_back(std::move(node));
  }
  const auto offers = offer(nodes);

  const std::clock_t start = std::clock();  // processor time, which other load does not prolong
  const auto networks = find_networks(offers, {});
  const std::clock_t middle = std::clock();
  const auto trials = try_all(1000, static_cast<int>(networks.size()), {0});
  const std::clock_t late = std::clock();
  const NetworkChoice choice = choose_network(offers, networks, trials);
  const std::clock_t took = (middle - start) + (std::clock() - late);

  EXPECT_EQ(networks.size(), 16U);
  EXPECT_THAT(choice.network, Optional(1));
  EXPECT_THAT(choice.reason, HasSubstr("all 1000 nodes"));
  EXPECT_LT(took, 10 * CLOCKS_PER_SEC);  // 30 ms; detects a change of complexity
  RecordProperty("milliseconds", static_cast<int>(took * 1000 / CLOCKS_PER_SEC));
}

}  // namespace
}  // namespace lockstep::plan
