// SPDX-License-Identifier: Apache-2.0
//
// Three numbers identify an agent, and they must not be confused:
//
//   number   chosen by the RunSupervisor at the first message; never reused
//   node     index in plan.nodes; fixed at Join, or by the first assign_nodes() after it
//   slot     position in this attempt, without gaps; changes if a node before it leaves or joins
//
// Ranks are consecutive within a slot. first_ranks_ holds the first rank of each slot and the world
// size as its last entry: for slots with 2, 1 and 4 workers, {0, 2, 3, 7}.
#include "launcher/supervisor/leader/roster.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"

namespace lockstep::supervisor {
namespace {

constexpr size_t kMaxNodesNamed = 8;

}  // namespace

// The order matters: with another protocol, no other field of the Join is set (messages.cpp).
std::string Roster::find_objection(const Join& join) const {
  if (join.protocol != kProtocol) {
    return fmt::format(
        "it uses protocol {}, the leader protocol {}; install the same version on all nodes",
        join.protocol,
        kProtocol);
  }
  const int maximum = static_cast<int>(plan_.nodes.size());
  if (join.node && (*join.node < 0 || *join.node >= maximum)) {
    return fmt::format(
        "node rank {} is out of range, the run has {}", *join.node, plural(maximum, "node"));
  }
  if (join.node && taken_nodes_.contains(*join.node)) {
    return fmt::format("node rank {} is already taken", *join.node);
  }
  if (size() >= maximum) {
    return fmt::format("the run already has {}", plural(maximum, "node"));
  }
  return "";
}

void Roster::add(int number, const Join& join) {
  Agent& added = agents_[number];
  added.offer = join;
  added.node = join.node.value_or(-1);
  if (join.node) {
    taken_nodes_.insert(*join.node);
  }
}

// Frees the node, so that an agent that is started in place of the lost one can join with the same
// node rank. If the agent had no node yet (-1), there is nothing to erase.
Roster::Agent Roster::remove(int number) {
  const auto found = agents_.find(number);
  Agent gone = std::move(found->second);
  agents_.erase(found);
  taken_nodes_.erase(gone.node);
  return gone;
}

std::string Roster::describe_missing() const {
  std::vector<std::string> missing;
  std::set<int> here;
  int unnamed = 0;
  for (const auto& [number, agent] : agents_) {
    here.insert(agent.node);
    unnamed += agent.node < 0 ? 1 : 0;
  }
  // An agent without a node of its own fills one of the gaps, and it is not known yet which one.
  for (size_t node = 0; node < plan_.nodes.size(); ++node) {
    if (!here.contains(static_cast<int>(node)) && unnamed-- <= 0) {
      const std::string& name = plan_.nodes[node].name;
      missing.push_back(name.empty() ? fmt::format("node {}", node) : name);
    }
  }
  return name_some(missing, kMaxNodesNamed);
}

// The node knows best: a number from the agent (LaunchMode::Peers and Task) wins over the plan of
// the leader, which may run on a machine without GPUs. Requires an assigned node.
int Roster::count_workers(const Agent& agent) const {
  if (agent.offer.workers > 0) {
    return agent.offer.workers;
  }
  const int planned = plan_.nodes.at(static_cast<size_t>(agent.node)).workers.value;
  return planned > 0 ? planned
                     : plan::count_by_rule(plan_.worker_rule, agent.offer.cores, agent.offer.gpus);
}

// Agents that were started as a certain node keep it. The others get the free nodes in the order of
// Join::sort_key, then of their numbers, and keep them in later attempts. A node therefore keeps
// its ranks in every attempt, unless a node before it is lost or joins.
void Roster::assign_nodes() {
  std::set<int> taken;
  std::vector<std::pair<int, int>> unnamed;
  for (const auto& [number, agent] : agents_) {
    if (agent.node >= 0) {
      taken.insert(agent.node);
    } else {
      unnamed.emplace_back(agent.offer.sort_key, number);
    }
  }
  std::sort(unnamed.begin(), unnamed.end());
  int node = 0;
  for (const auto& [key, number] : unnamed) {
    while (taken.contains(node)) {
      ++node;
    }
    taken_nodes_.insert(node);
    agents_.at(number).node = node++;
  }
}

std::vector<plan::NodeSlot> Roster::assign_slots() {
  assign_nodes();
  std::vector<std::pair<int, int>> by_node;
  for (const auto& [number, agent] : agents_) {
    by_node.emplace_back(agent.node, number);
  }
  std::sort(by_node.begin(), by_node.end());
  std::vector<plan::NodeSlot> slots;
  first_ranks_.assign(1, 0);
  for (const auto& [planned, number] : by_node) {
    Agent& agent = agents_.at(number);
    agent.slot = static_cast<int>(slots.size());
    agent.has_probed = agent.is_prepared = agent.is_stopped = false;
    slots.push_back({.node = planned,
                     .name = agent.offer.name,
                     .workers = count_workers(agent),
                     .cores = agent.offer.cores,
                     .address = "127.0.0.1",
                     .interface = "",
                     .ports = {}});
    first_ranks_.push_back(first_ranks_.back() + slots.back().workers);
  }
  return slots;
}

bool Roster::has_process(ProcessId process) const {
  const int end = process.is_worker() ? world_size() : static_cast<int>(first_ranks_.size()) - 1;
  return process.number >= 0 && process.number < end;
}

// The first entry behind the rank belongs to the next slot. Slots without workers do not occur:
// Leader::begin_attempt() rejects them.
int Roster::slot_of(ProcessId process) const {
  if (!process.is_worker()) {
    return process.number;
  }
  const auto next = std::upper_bound(first_ranks_.begin(), first_ranks_.end(), process.number);
  return static_cast<int>(next - first_ranks_.begin()) - 1;
}

std::optional<int> Roster::find_agent_of(int slot) const {
  const auto found = std::find_if(agents_.begin(), agents_.end(), [slot](const auto& entry) {
    return entry.second.slot == slot;
  });
  return found == agents_.end() ? std::nullopt : std::optional(found->first);
}

// An agent number is never reused, so a node whose agent was restarted is another member: it may
// have other addresses.
std::vector<std::string> Roster::members() const {
  std::vector<std::string> members;
  for (const auto& [number, agent] : agents_) {
    members.push_back(fmt::format("{} {}", agent.node, number));
  }
  return members;
}

void Roster::expect(Flag flag) {
  for (auto& [number, agent] : agents_) {
    if (agent.slot >= 0) {
      agent.*flag = false;
    }
  }
  wait_for_all(flag);
}

void Roster::wait_for_all(Flag flag) {
  waiting_ =
      static_cast<int>(std::count_if(agents_.begin(), agents_.end(), [flag](const auto& entry) {
        return entry.second.slot >= 0 && !(entry.second.*flag);
      }));
}

// A repeated report must not count twice: waiting_ would reach 0 while an agent is still missing.
bool Roster::mark(Agent& agent, Flag flag) {
  if (agent.slot < 0 || agent.*flag) {
    return false;
  }
  agent.*flag = true;
  return --waiting_ == 0;
}

void Roster::mark_all(Flag flag) {
  for (auto& [number, agent] : agents_) {
    agent.*flag = true;
  }
  waiting_ = 0;
}

std::string Roster::names_without(Flag flag) const {
  std::vector<std::string> names;
  for (const auto& [number, agent] : agents_) {
    if (agent.slot >= 0 && !(agent.*flag)) {
      names.push_back(agent.offer.name);
    }
  }
  return name_some(names, kMaxNodesNamed);
}

}  // namespace lockstep::supervisor
