// SPDX-License-Identifier: Apache-2.0
//
// Errors for options that the strategy does not support, derived from the table of options.
#include "training/train/options/strategy_flags.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/train/options/flag_checks.h"

namespace lockstep::train {
namespace {

using strategy::Properties;

bool is_for_one_worker(const Flags& flags) {
  return strategy::has(flags.strategy, &Properties::is_for_one_worker);
}

bool is_accepted(const Support& support, const Flags& flags) {
  if (support.property == nullptr || strategy::has(flags.strategy, support.property)) {
    return true;
  }
  switch (support.scope) {
    case Scope::Every:
      return true;
    case Scope::Shared:
      // The strategy for one worker with --verify-strategies has its own message.
      return !flags.strategy || (flags.verify_strategies && is_for_one_worker(flags));
    case Scope::Own:
    case Scope::OwnSetup:
      return flags.verify_strategies &&
             (support.verify == Verify::Always ||
              (support.verify == Verify::WithoutStrategy && !flags.strategy));
    case Scope::Selects:
      return !flags.strategy;
  }
  return true;
}

// An option without effect is an error instead of being ignored: the user would measure something
// other than intended.
[[noreturn]] void throw_unsupported(const Option& option,
                                    const std::string& value,
                                    const Flags& flags) {
  const Support& support = option.support;
  const std::string flag = option.name();
  const std::string typed = option.typed(value);
  const std::string used = flags.strategy.value_or("not given");
  const std::vector<std::string> names = strategy::names_with(support.property);
  const std::string owner = join(names, ", ");
  const std::string instead = fmt::format(fmt::runtime(support.instead),
                                          fmt::arg("value", value),
                                          fmt::arg("strategies", owner),
                                          fmt::arg("transport", value == "ring" ? "gloo" : "auto"));
  switch (support.scope) {
    case Scope::Shared: {
      const bool is_one = is_for_one_worker(flags);
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot use {} with -s {}: {}",
                      flag,
                      used,
                      is_one ? "a single worker does not exchange gradients" : support.reason))
          .fact("requested", fmt::format("-s {} {}", used, typed), "command line")
          .fact("supported by", "-s " + join(names, ", -s "))
          .hint(is_one || instead.empty() ? "omit " + flag : instead);
    }
    case Scope::Selects:
      throw Error(ExitCode::Usage, fmt::format("cannot use {} with -s {}", flag, used))
          .fact("requested", fmt::format("-s {} and {}", used, flag), "command line")
          .hint("-s " + owner);
    case Scope::OwnSetup:
      throw Error(ExitCode::Usage, fmt::format("cannot use {} without -s {}", typed, owner))
          .fact("requested", typed, "command line")
          .fact("strategy", used, "command line")
          .hint(instead);
    default:
      throw Error(ExitCode::Usage, fmt::format("cannot use {} without -s {}", flag, owner))
          .fact("requested", "-s " + used, "command line")
          .hint(fmt::format("-s {}, or omit {}", owner, flag));
  }
}

}  // namespace

void require_support(const Flags& flags, Scope scope) {
  for (const Option& option : option_table()) {
    if (option.support.scope != scope || is_accepted(option.support, flags)) {
      continue;
    }
    if (const auto value = find_value(option, flags)) {
      throw_unsupported(option, *value, flags);
    }
  }
}

void select_strategy(Flags& flags) {
  require_support(flags, Scope::Selects);
  for (const Option& option : option_table()) {
    if (option.support.scope == Scope::Selects && find_value(option, flags)) {
      flags.strategy = strategy::name_with(option.support.property);
    }
  }
}

void require_numbers(const Flags& flags) {
  constexpr double kMaxMebibytes = 1 << 20;
  constexpr double kMaxSeconds = 1e9;
  require_number("--clip", flags.clip_norm, {.example = "1"});
  require_number(
      "--bucket-mb", flags.bucket_mb, {.above = true, .maximum = kMaxMebibytes, .example = "25"});
  require_number("--fusion-threshold-mb",
                 flags.fusion_threshold_mb,
                 {.maximum = kMaxMebibytes, .example = "128"});
  require_number("--lr", flags.lr, {.example = "0.01"});
  require_number("--momentum", flags.momentum, {.maximum = 1, .example = "0.9"});
  require_number("--weight-decay", flags.weight_decay, {.example = "0.0001"});
  require_number(
      "--timeout", flags.timeout, {.above = true, .maximum = kMaxSeconds, .example = "600"});
  require_number("--report-every", flags.report_every, {.maximum = kMaxSeconds, .example = "10"});
  require_count("--powersgd-rank", flags.powersgd_rank.value_or(1), 1, 1);
  require_count("--powersgd-start", flags.powersgd_start.value_or(0), 0, 10);
  require_count("--early-stop", flags.early_stop.value_or(1), 1, 3);
  // 0 replicas means "not given"; choose_replicas() decides then.
  if (flags.replicas < 0) {
    throw Error(ExitCode::Usage, fmt::format("--replicas {} is out of range", flags.replicas))
        .fact("expected", "an integer of at least 1")
        .hint("--replicas 2");
  }
}

void settle_collective(Flags& flags) {
  if (flags.collective == "auto") {
    return;
  }
  const bool is_ring = flags.collective == "ring";
  const std::string transport = is_ring ? "gloo" : "nccl";
  if (flags.transport != "auto" && flags.transport != transport) {
    throw Error(
        ExitCode::Usage,
        fmt::format(
            "--collective {} conflicts with --transport {}", flags.collective, flags.transport))
        .fact("--collective " + flags.collective,
              is_ring ? "selects gloo, a ring over TCP" : "selects NCCL, between GPUs",
              "command line")
        .fact("--transport", flags.transport, "command line")
        .hint(fmt::format("--transport {}", flags.transport));
  }
  flags.transport = transport;
}

}  // namespace lockstep::train
