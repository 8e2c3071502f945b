// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/plan/node_spec.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/failure/process_id.h"
#include "launcher/supervisor/protocol/messages.h"

namespace lockstep::supervisor {

// The agents of a run, their slots in the current attempt, and which of them a phase waits for.
//
// An agent has a slot, or waits for the next attempt (-1). Slots follow the order of the nodes in
// the plan, and ranks follow the slots, so a node that stays keeps its order. Not thread-safe.
class Roster {
 public:
  struct Agent {
    Join offer;
    int node = -1;  // index in plan.nodes; -1: assigned by assign_slots()
    int slot = -1;  // slot in this attempt; -1: waits for the next attempt
    bool has_probed = false;
    bool is_prepared = false;
    bool is_stopped = false;
  };
  using Flag = bool Agent::*;

  // The plan must outlive the Roster.
  explicit Roster(const plan::LaunchPlan& plan) : plan_(plan) {}

  // ---- agents ----
  // Why this agent cannot join; empty if it can.
  std::string find_objection(const Join& join) const;
  void add(int number, const Join& join);
  Agent remove(int number);

  bool contains(int number) const { return agents_.contains(number); }
  Agent& at(int number) { return agents_.at(number); }
  const std::map<int, Agent>& agents() const { return agents_; }  // by number
  int size() const { return static_cast<int>(agents_.size()); }

  // The nodes of the plan that have not joined.
  std::string describe_missing() const;

  // ---- slots ----
  // Gives every agent a node of the plan and a slot, and clears its flags. Returns the slots,
  // without network and ports.
  std::vector<plan::NodeSlot> assign_slots();

  // Total number of workers in the slots.
  int world_size() const { return first_ranks_.back(); }
  bool has_process(ProcessId process) const;
  // Requires has_process().
  int slot_of(ProcessId process) const;
  // Nothing if the agent of the slot is lost.
  std::optional<int> find_agent_of(int slot) const;

  // Whether the same agents have the same nodes as at the last remember_members(). lose() of an
  // agent calls forget_members(), so that an agent which replaces a lost one is probed.
  bool are_members_known() const { return members() == known_members_; }
  void remember_members() { known_members_ = members(); }
  void forget_members() { known_members_.clear(); }

  // ---- waiting ----
  // Clears the flag of all agents with a slot, and waits for it.
  void expect(Flag flag);
  // Waits for the agents with a slot whose flag is not set.
  void wait_for_all(Flag flag);
  // Sets the flag of an agent with a slot. True if it was the last one to wait for.
  bool mark(Agent& agent, Flag flag);
  // Sets the flag of all agents and waits for none.
  void mark_all(Flag flag);
  int waiting() const { return waiting_; }
  // The names of the agents with a slot whose flag is not set.
  std::string names_without(Flag flag) const;

 private:
  int count_workers(const Agent& agent) const;
  void assign_nodes();
  std::vector<std::string> members() const;

  const plan::LaunchPlan& plan_;
  std::map<int, Agent> agents_;
  std::set<int> taken_nodes_;           // indices in plan.nodes
  std::vector<int> first_ranks_ = {0};  // first rank of each slot, then the world size
  std::vector<std::string> known_members_;
  int waiting_ = 0;  // agents that the phase still waits for
};

}  // namespace lockstep::supervisor
