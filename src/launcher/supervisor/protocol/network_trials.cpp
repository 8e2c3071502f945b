// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/protocol/network_trials.h"

#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"

namespace lockstep::supervisor {
namespace {

// A node in the same cluster usually answers within a millisecond. The second round is for a
// network that drops packets, or for busy nodes.
constexpr int kFirstTime = 1000;  // milliseconds
constexpr int kSecondTime = 4000;

}  // namespace

// round_ is never reset, not even between attempts: a result of any earlier round that is still in
// transit has a smaller number.
void NetworkTrials::begin(std::vector<Participant> nodes, std::span<const std::string> allowed) {
  offers_.clear();
  probe_ports_.clear();
  for (Participant& node : nodes) {
    offers_.push_back(std::move(node.offer));
    probe_ports_.push_back(node.probe_port);
  }
  allowed_.assign(allowed.begin(), allowed.end());
  networks_ = plan::find_networks(offers_, allowed);
  trials_.clear();
  is_second_ = false;
  ++round_;
}

bool NetworkTrials::begin_again() {
  if (is_second_ || networks_.empty()) {
    return false;
  }
  trials_.clear();
  is_second_ = true;
  ++round_;
  return true;
}

// The source address is fixed, because the route of the kernel could otherwise leave through
// another interface, and the trial would not prove anything about this network.
Probe NetworkTrials::probe_for(int slot) const {
  Probe probe{.round = round_,
              .self = slot,
              .targets = {},
              .timeout_ms = is_second_ ? kSecondTime : kFirstTime};
  for (const int peer : plan::peers_to_try(slot, static_cast<int>(offers_.size()))) {
    for (int network = 0; network < static_cast<int>(networks_.size()); ++network) {
      probe.targets.push_back({.to = peer,
                               .network = network,
                               .address = address_of(peer, network).text,
                               .port = probe_ports_.at(static_cast<size_t>(peer)),
                               .source = address_of(slot, network).text});
    }
  }
  return probe;
}

// Slots and networks in the results come from an authenticated agent and are used for lookup only;
// choose_network() ignores pairs that it does not ask for.
bool NetworkTrials::take(const Probed& probed) {
  if (probed.round != round_) {
    return false;
  }
  trials_.insert(trials_.end(), probed.trials.begin(), probed.trials.end());
  return true;
}

plan::NetworkChoice NetworkTrials::choose() const {
  plan::NetworkChoice choice = plan::choose_network(offers_, networks_, trials_);
  if (networks_.empty() && !allowed_.empty()) {
    std::vector<std::string> labels;
    for (const plan::Network& network : plan::find_networks(offers_, {})) {
      labels.push_back(plan::label_of(offers_, network));
    }
    choice.details.push_back(fmt::format("--network-interfaces {} excludes all; available: {}",
                                         join(allowed_, ","),
                                         labels.empty() ? "none" : join(labels, ", ")));
  }
  return choice;
}

const cluster::Address& NetworkTrials::address_of(int slot, int network) const {
  const auto at = static_cast<size_t>(slot);
  const int member = networks_.at(static_cast<size_t>(network)).members.at(at);
  return offers_.at(at).addresses.at(static_cast<size_t>(member));
}

}  // namespace lockstep::supervisor
