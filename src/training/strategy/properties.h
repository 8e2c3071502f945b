// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/contract/strategy_kind.h"

namespace lockstep::strategy {

// What code outside of this folder needs to know about a strategy before one is created, mostly to
// check options. Such code asks for a property and never compares names, so that a new strategy
// changes this folder only. The test `strategy_names` enforces this.
struct Properties {
  contract::StrategyKind kind;

  bool is_for_one_worker = false;  // exchanges nothing; the reference for all others
  bool can_record_step = false;    // a step can be a CUDA graph: the host decides nothing in it

  // Options of the gradient exchange that it supports.
  bool has_compression = false;          // --compression
  bool has_powersgd = false;             // --compression powersgd
  bool has_buckets = false;              // --bucket-mb
  bool has_overlap = false;              // --no-overlap: the exchange runs during backward
  bool has_find_unused = false;          // --find-unused-parameters
  bool has_static_graph = false;         // --static-graph
  bool has_horovod_options = false;      // HorovodOptions, from options and HOROVOD_ variables
  bool has_zero_stages = false;          // ZeroOptions; the memory of each stage is known
  bool has_deepspeed_config = false;     // ds_config.json
  bool has_replicas_in_process = false;  // --replicas, --auto-shard, --collective
};

using Property = bool Properties::*;

// Whether the strategy with this name has a property. False if there is no name, or no such
// strategy.
bool has(std::optional<std::string_view> name, Property property);

// Returns the names of all strategies with a property, in the order of the help text.
std::vector<std::string> names_with(Property property);

// Returns the name of the only strategy with a property.
std::string name_with(Property property);

// Returns the name of the strategy that is used without -s.
std::string default_name(int workers);

}  // namespace lockstep::strategy
