// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "common/contract/launch_plan.h"

// The names of enumerators in plan.json and in messages.
namespace lockstep::contract {

template <typename T, size_t kCount>
using EnumNames = std::array<std::pair<T, std::string_view>, kCount>;

inline constexpr EnumNames<ValueSource, 4> enum_names(ValueSource /*kind*/) {
  return {std::pair(ValueSource::Flag, "flag"),
          std::pair(ValueSource::Variable, "variable"),
          std::pair(ValueSource::Probe, "probe"),
          std::pair(ValueSource::Default, "default")};
}

inline constexpr EnumNames<LaunchMode, 5> enum_names(LaunchMode /*kind*/) {
  return {std::pair(LaunchMode::Local, "here"),
          std::pair(LaunchMode::Srun, "srun"),
          std::pair(LaunchMode::Ssh, "ssh"),
          std::pair(LaunchMode::Peers, "peers"),
          std::pair(LaunchMode::Task, "task")};
}

inline constexpr EnumNames<WorkerRule, 4> enum_names(WorkerRule /*kind*/) {
  return {std::pair(WorkerRule::Number, "number"),
          std::pair(WorkerRule::Cpu, "cpu"),
          std::pair(WorkerRule::Gpu, "gpu"),
          std::pair(WorkerRule::Auto, "auto")};
}

inline constexpr EnumNames<Bind, 3> enum_names(Bind /*kind*/) {
  return {
      std::pair(Bind::None, "none"), std::pair(Bind::Core, "core"), std::pair(Bind::Gpu, "gpu")};
}

template <typename T>
constexpr std::string_view to_string(T value) {
  for (const auto& [known, word] : enum_names(value)) {
    if (known == value) {
      return word;
    }
  }
  return "";
}

}  // namespace lockstep::contract
