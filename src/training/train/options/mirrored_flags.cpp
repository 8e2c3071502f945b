// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/mirrored_flags.h"

#include <fmt/format.h>

#include "lockstep/error.h"
#include "training/strategy/properties.h"

namespace lockstep::train {
namespace {

// The name of the strategy that these options belong to.
std::string strategy_name() {
  return strategy::name_with(&strategy::Properties::has_replicas_in_process);
}

void refuse_for_others(const Flags& flags, const std::string& asked, const std::string& instead) {
  throw Error(ExitCode::Usage, fmt::format("cannot use {} without -s {}", asked, strategy_name()))
      .fact("asked", asked, "command line")
      .fact("strategy", flags.strategy.value_or("not given"), "command line")
      .hint(instead);
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

}  // namespace

// 0 replicas means "not given"; choose_replicas() decides then.
void settle_mirrored_flags(Flags& flags) {
  if (flags.replicas < 0) {
    throw Error(ExitCode::Usage, fmt::format("--replicas {} is out of range", flags.replicas))
        .fact("expected", "an integer of at least 1")
        .hint("--replicas 2");
  }
  if (!strategy::has(flags.strategy, &strategy::Properties::has_replicas_in_process)) {
    if (flags.replicas > 1) {
      refuse_for_others(
          flags,
          fmt::format("--replicas {}", flags.replicas),
          fmt::format(
              "-s {}, or lockstep run --nproc-per-node {}", strategy_name(), flags.replicas));
    }
    if (flags.auto_shard != "data") {
      refuse_for_others(
          flags,
          "--auto-shard " + flags.auto_shard,
          fmt::format("-s {}; all other strategies use --auto-shard data", strategy_name()));
    }
    // --verify-strategies includes this strategy and uses one transport for all strategies.
    if (flags.collective != "auto" && !(flags.verify_strategies && !flags.strategy)) {
      refuse_for_others(flags,
                        "--collective " + flags.collective,
                        flags.collective == "ring" ? "--transport gloo" : "--transport auto");
    }
  }
  settle_collective(flags);
}

}  // namespace lockstep::train
