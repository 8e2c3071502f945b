// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "lockstep/error.h"
#include "training/strategy/properties.h"
#include "training/train/options/option_table.h"
#include "training/train/verify/verify.h"

namespace lockstep::train {

// The comparison requires that the strategies compute the same numbers up to rounding; options that
// round or change the training, and those that the verification varies itself, are rejected.
void require_exact_flags(const Flags& flags) {
  const auto refuse = [](const std::string& option, std::string_view why) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot use {} with --verify-strategies: {}", option, why))
        .fact("requested", fmt::format("{} and --verify-strategies", option), "command line")
        .hint(fmt::format("omit {}", option));
  };
  if (strategy::has(flags.strategy, &strategy::Properties::is_for_one_worker)) {
    refuse("-s " + flags.strategy.value_or(""), "it is the reference of the comparison");
  }
  for (const Option& option : option_table()) {
    const auto value = find_value(option, flags);
    if (value && !option.support.unverifiable.empty()) {
      refuse(option.typed(*value), option.support.unverifiable);
    }
  }
}

}  // namespace lockstep::train
