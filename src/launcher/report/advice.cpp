// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/advice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/report/advice_rules.h"

namespace lockstep::report {
namespace {

// The data that a rule needs; without enough of it the rule is skipped. A rule has three parts:
// seen (numbers of this run), means (the cause), tries (remedies). The thresholds are constants
// next to the rules. They are chosen so that a healthy run produces no advice: false advice costs
// more trust than a missed problem.
enum class Needs { Nothing, Samples, Split };

struct Rule {
  std::string_view name;
  Needs needs;
  std::optional<Advice> (*see)(const RunFacts& facts);
};

// Failures first, then the most expensive problems. Several rules can apply to one run. Rules that
// would explain the same time twice exclude each other in their own code: see_failure() yields to
// out-of-memory, time-limit and loss-not-finite, see_idle_gpus() to loader-bound and host-bound.
constexpr std::array kRules = {
    Rule{"out-of-memory", Needs::Nothing, see_out_of_memory},
    Rule{"failed", Needs::Nothing, see_failure},
    Rule{"time-limit", Needs::Nothing, see_time_limit},
    Rule{"killed", Needs::Nothing, see_lost_launcher},
    Rule{"loss-not-finite", Needs::Nothing, see_bad_loss},
    Rule{"restarts", Needs::Nothing, see_restarts},
    Rule{"gpu-errors", Needs::Nothing, see_gpu_errors},
    Rule{"gpu-throttled", Needs::Samples, see_throttling},
    Rule{"gpu-unused", Needs::Samples, see_unused_gpus},
    Rule{"loader-bound", Needs::Split, see_loader_bound},
    Rule{"host-bound", Needs::Samples, see_host_bound},
    Rule{"gpu-idle", Needs::Samples, see_idle_gpus},
    Rule{"exchange-bound", Needs::Split, see_exchange},
    Rule{"slow-rank", Needs::Split, see_slow_rank},
    Rule{"checkpoint-stalls", Needs::Split, see_checkpoint_stalls},
    Rule{"memory-full", Needs::Samples, see_full_memory},
    Rule{"cores-full", Needs::Samples, see_full_cores},
    Rule{"cores-shared", Needs::Samples, see_foreign_load},
    Rule{"cores-idle", Needs::Samples, see_idle_cores},
    Rule{"memory-unused", Needs::Samples, see_unused_memory},
    Rule{"gpu-memory-unused", Needs::Samples, see_gpu_memory},
};

// The maximum over the ranks, because a rank that joined late covers less time.
double measured_seconds(const RunFacts& facts) {
  double maximum = 0;
  for (const monitor::RankView& rank : facts.run.ranks) {
    maximum = std::max(maximum, rank.totals.seconds);
  }
  return maximum;
}

bool has_enough(const RunFacts& facts, Needs needs) {
  switch (needs) {
    case Needs::Nothing:
      return true;
    case Needs::Samples:
      return facts.sampled_seconds >= kMinSeconds;
    case Needs::Split:
      return facts.split.ranks > 0 && measured_seconds(facts) >= kMinSeconds;
  }
  return false;
}

}  // namespace

std::vector<Advice> advise(const RunFacts& facts) {
  std::vector<Advice> all;
  for (const Rule& rule : kRules) {
    if (!has_enough(facts, rule.needs)) {
      continue;
    }
    if (auto advice = rule.see(facts)) {
      advice->rule = rule.name;
      all.push_back(std::move(*advice));
    }
  }
  return all;
}

std::vector<std::string> untried(const RunFacts& facts) {
  std::vector<std::string> reasons;
  if (!has_enough(facts, Needs::Samples)) {
    reasons.push_back(
        facts.run.nodes.empty()
            ? "GPUs, cores and memory: there are no samples"
            : fmt::format("GPUs, cores and memory: only {} of samples, {:.0f} s are needed",
                          format_duration(facts.sampled_seconds),
                          kMinSeconds));
  }
  if (!has_enough(facts, Needs::Split)) {
    reasons.push_back(
        facts.split.ranks == 0
            ? "data, exchange and slow ranks: no worker reports how it spends its time"
            : fmt::format("data, exchange and slow ranks: only {} of events, {:.0f} s are needed",
                          format_duration(measured_seconds(facts)),
                          kMinSeconds));
  }
  return reasons;
}

std::vector<std::string_view> rule_names() {
  std::vector<std::string_view> names;
  names.reserve(kRules.size());
  for (const Rule& rule : kRules) {
    names.push_back(rule.name);
  }
  return names;
}

std::string percent(double share) {
  constexpr double kHundred = 100;
  return fmt::format("{:.0f} %", kHundred * share);
}

}  // namespace lockstep::report
