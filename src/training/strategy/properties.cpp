// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/properties.h"

#include <array>

#include "common/base/check.h"

namespace lockstep::strategy {
namespace {

using contract::StrategyKind;

// One row per strategy, in the order of contract::strategy_names().
constexpr std::array kTable = {
    Properties{.kind = StrategyKind::Single, .is_for_one_worker = true, .can_record_step = true},
    Properties{.kind = StrategyKind::Ddp,
               .has_compression = true,
               .has_powersgd = true,
               .has_buckets = true,
               .has_overlap = true,
               .has_find_unused = true,
               .has_static_graph = true},
    Properties{.kind = StrategyKind::Horovod,
               .has_compression = true,
               .has_overlap = true,
               .has_horovod_options = true},
    Properties{.kind = StrategyKind::Deepspeed,
               .has_buckets = true,
               .has_overlap = true,
               .has_find_unused = true,
               .has_zero_stages = true,
               .has_deepspeed_config = true},
    Properties{.kind = StrategyKind::Mirrored,
               .can_record_step = true,
               .has_compression = true,
               .has_buckets = true,
               .has_replicas_in_process = true}};

}  // namespace

bool has(std::optional<std::string_view> name, Property property) {
  for (const Properties& row : kTable) {
    if (contract::name_of(row.kind) == name) {
      return row.*property;
    }
  }
  return false;
}

std::vector<std::string> names_with(Property property) {
  std::vector<std::string> names;
  for (const Properties& row : kTable) {
    if (row.*property) {
      names.emplace_back(contract::name_of(row.kind));
    }
  }
  return names;
}

std::string name_with(Property property) {
  const std::vector<std::string> names = names_with(property);
  LOCKSTEP_CHECK(names.size() == 1);
  return names.front();
}

std::string default_name(int workers) {
  return std::string(contract::name_of(workers == 1 ? StrategyKind::Single : StrategyKind::Ddp));
}

}  // namespace lockstep::strategy
