// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/compression.h"

#include <array>
#include <fmt/format.h>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::array kCompressions = {
    Compression::None, Compression::Fp16, Compression::Bf16, Compression::PowerSgd};

}  // namespace

std::string_view name_of(Compression compression) {
  switch (compression) {
    case Compression::Fp16:
      return "fp16";
    case Compression::Bf16:
      return "bf16";
    case Compression::PowerSgd:
      return "powersgd";
    case Compression::None:
      break;
  }
  return "none";
}

Compression parse_compression(std::string_view name) {
  std::vector<std::string> names;
  for (const Compression each : kCompressions) {
    if (name_of(each) == name) {
      return each;
    }
    names.emplace_back(name_of(each));
  }
  throw Error(ExitCode::Usage, fmt::format("unknown gradient compression '{}'", name))
      .fact("requested", fmt::format("--compression {}", name), "command line")
      .fact("available", join(names, ", "))
      .hint(fmt::format("--compression {}", find_closest(name, names).value_or("bf16")));
}

std::optional<torch::ScalarType> strategy::wire_type(Compression compression) {
  switch (compression) {
    case Compression::Fp16:
      return torch::kHalf;
    case Compression::Bf16:
      return torch::kBFloat16;
    case Compression::PowerSgd:
    case Compression::None:
      break;
  }
  return std::nullopt;
}

}  // namespace lockstep
