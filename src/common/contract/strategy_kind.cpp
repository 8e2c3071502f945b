// SPDX-License-Identifier: Apache-2.0
#include "common/contract/strategy_kind.h"

#include <array>
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

constexpr std::array kKinds = {StrategyKind::Single,
                               StrategyKind::Ddp,
                               StrategyKind::Horovod,
                               StrategyKind::Deepspeed,
                               StrategyKind::Mirrored};

}  // namespace

std::string_view name_of(StrategyKind kind) {
  switch (kind) {
    case StrategyKind::Single:
      return "single";
    case StrategyKind::Ddp:
      return "ddp";
    case StrategyKind::Horovod:
      return "horovod";
    case StrategyKind::Deepspeed:
      return "deepspeed";
    case StrategyKind::Mirrored:
      return "mirrored";
  }
  return "";
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  names.reserve(kKinds.size());
  for (const StrategyKind kind : kKinds) {
    names.emplace_back(name_of(kind));
  }
  return names;
}

std::vector<std::string> distributed_strategy_names() {
  std::vector<std::string> names = strategy_names();
  std::erase(names, name_of(StrategyKind::Single));
  return names;
}

std::vector<std::string> itwinai_strategy_names() {
  return {std::string(name_of(StrategyKind::Ddp)),
          std::string(name_of(StrategyKind::Deepspeed)),
          std::string(name_of(StrategyKind::Horovod))};
}

bool has_zero_stage(std::string_view name) {
  return name == name_of(StrategyKind::Deepspeed);
}

// As in itwinai.
bool supports_py_spy(std::string_view name) {
  return name != name_of(StrategyKind::Horovod);
}

StrategyKind parse_strategy(std::string_view name) {
  for (const StrategyKind kind : kKinds) {
    if (name_of(kind) == name) {
      return kind;
    }
  }
  const std::vector<std::string> names = strategy_names();
  const auto closest = find_closest(name, names);
  throw Error(ExitCode::Usage, fmt::format("unknown strategy '{}'", name))
      .fact("requested", fmt::format("-s {}", name), "command line")
      .fact("available", join(names, ", "))
      .hint(fmt::format("-s {}", closest.value_or("ddp")));
}

}  // namespace lockstep::contract
