// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/strategy_flags.h"

#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/strategy/properties.h"
#include "training/train/options/flag_checks.h"

namespace lockstep::train {
namespace {

using strategy::Properties;

// An option that only some strategies support.
struct Limited {
  bool is_given;
  std::string asked;            // as given on the command line
  strategy::Property property;  // of the strategies that support it
  std::string instead;          // the equivalent option of the selected strategy; empty: none
};

std::vector<Limited> limited_flags(const Flags& flags) {
  const std::string compression = flags.compression.value_or("none");
  const bool has_fusion_buffer = strategy::has(flags.strategy, &Properties::has_horovod_options);
  const std::string bucket = fmt::format("{:g}", flags.bucket_mb.value_or(0));
  return {{compression != "none", "--compression " + compression, &Properties::has_compression, ""},
          {flags.bucket_mb.has_value(),
           "--bucket-mb " + bucket,
           &Properties::has_buckets,
           has_fusion_buffer ? "--fusion-threshold-mb " + bucket : ""},
          {flags.no_overlap, "--no-overlap", &Properties::has_overlap, ""},
          {flags.find_unused, "--find-unused-parameters", &Properties::has_find_unused, ""},
          {flags.static_graph, "--static-graph", &Properties::has_static_graph, ""}};
}

const char* reason(const std::string& strategy, const std::string& asked) {
  if (strategy::has(strategy, &Properties::is_for_one_worker)) {
    return "a single worker does not exchange gradients";
  }
  if (asked.starts_with("--compression")) {
    return "\"communication_data_type\" in ds_config.json selects the type of gradients";
  }
  if (asked == "--no-overlap") {
    return "it never exchanges gradients during backward";
  }
  return asked.starts_with("--bucket-mb") ? "it uses a fusion buffer"
                                          : "it detects unused parameters in every step";
}

}  // namespace

// An option without effect is an error, not ignored: the user would measure something else than
// intended.
void require_strategy_flags(const Flags& flags) {
  if (!flags.strategy) {
    return;
  }
  // The strategy for one worker with --verify-strategies has its own message.
  if (flags.verify_strategies && strategy::has(flags.strategy, &Properties::is_for_one_worker)) {
    return;
  }
  for (const Limited& each : limited_flags(flags)) {
    if (!each.is_given || strategy::has(flags.strategy, each.property)) {
      continue;
    }
    const std::string bare = each.asked.substr(0, each.asked.find(' '));
    throw Error(ExitCode::Usage,
                fmt::format("cannot use {} with -s {}: {}",
                            bare,
                            *flags.strategy,
                            reason(*flags.strategy, each.asked)))
        .fact("asked", fmt::format("-s {} {}", *flags.strategy, each.asked), "command line")
        .fact("supported by", "-s " + join(strategy::names_with(each.property), ", -s "))
        .hint(each.instead.empty() ? fmt::format("omit {}", bare) : each.instead);
  }
}

void require_numbers(const Flags& flags) {
  constexpr double kMostMebibytes = 1 << 20;
  constexpr double kMostSeconds = 1e9;
  require_number("--clip", flags.clip_norm, {.example = "1"});
  require_number(
      "--bucket-mb", flags.bucket_mb, {.above = true, .most = kMostMebibytes, .example = "25"});
  require_number("--fusion-threshold-mb",
                 flags.horovod.fusion_threshold_mb,
                 {.most = kMostMebibytes, .example = "128"});
  require_number("--lr", flags.lr, {.example = "0.01"});
  require_number("--momentum", flags.momentum, {.most = 1, .example = "0.9"});
  require_number("--weight-decay", flags.weight_decay, {.example = "0.0001"});
  require_number(
      "--timeout", flags.timeout, {.above = true, .most = kMostSeconds, .example = "600"});
  require_number("--report-every", flags.report_every, {.most = kMostSeconds, .example = "10"});
  require_count("--powersgd-rank", flags.powersgd_rank.value_or(1), 1, 1);
  require_count("--powersgd-start", flags.powersgd_start.value_or(0), 0, 10);
  require_count("--early-stop", flags.early_stop.value_or(1), 1, 3);
}

}  // namespace lockstep::train
