// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "common/contract/launch_plan.h"

// The names of enumerators in plan.json and in messages.
namespace lockstep::contract {

template <typename T, size_t kCount>
using Words = std::array<std::pair<T, std::string_view>, kCount>;

inline constexpr Words<Origin, 4> words_of(Origin /*kind*/) {
  return {std::pair(Origin::Flag, "flag"),
          std::pair(Origin::Variable, "variable"),
          std::pair(Origin::Probe, "probe"),
          std::pair(Origin::Default, "default")};
}

inline constexpr Words<Way, 5> words_of(Way /*kind*/) {
  return {std::pair(Way::Here, "here"),
          std::pair(Way::Srun, "srun"),
          std::pair(Way::Ssh, "ssh"),
          std::pair(Way::Peers, "peers"),
          std::pair(Way::Task, "task")};
}

inline constexpr Words<WorkerRule, 4> words_of(WorkerRule /*kind*/) {
  return {std::pair(WorkerRule::Number, "number"),
          std::pair(WorkerRule::Cpu, "cpu"),
          std::pair(WorkerRule::Gpu, "gpu"),
          std::pair(WorkerRule::Auto, "auto")};
}

inline constexpr Words<Bind, 3> words_of(Bind /*kind*/) {
  return {
      std::pair(Bind::None, "none"), std::pair(Bind::Core, "core"), std::pair(Bind::Gpu, "gpu")};
}

template <typename T>
constexpr std::string_view word_of(T value) {
  for (const auto& [known, word] : words_of(value)) {
    if (known == value) {
      return word;
    }
  }
  return "";
}

}  // namespace lockstep::contract
