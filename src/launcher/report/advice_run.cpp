// SPDX-License-Identifier: Apache-2.0
// Advice about the end of a run.
#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/report/advice_rules.h"

// These rules need no samples: they apply to a run that has ended after a second, too. Each quotes
// what the launcher recorded (find_ending), and adds only the command for the next step.
namespace lockstep::report {
namespace {

// The name of the run on a command line.
std::string run_word(const RunFacts& facts) {
  return facts.run.job.empty() ? quote_for_shell(facts.run.directory) : facts.run.job;
}

}  // namespace

std::optional<Advice> see_out_of_memory(const RunFacts& facts) {
  if (!facts.ending.is_out_of_memory) {
    return std::nullopt;
  }
  const auto use = memory_use(facts);
  return Advice{
      .rule = {},
      .seen = "a worker was killed by the kernel's OOM killer" +
              (use ? fmt::format("; the samples peak at {} of the limit", percent(*use)) : ""),
      .means = "the memory of the node was too small for all its workers",
      .tries = {"more memory for the job: lockstep submit --memory SIZE",
                "fewer workers on each node: lockstep run --nproc-per-node COUNT",
                facts.is_trainer ? "fewer loader threads: --num-workers COUNT"
                                 : "fewer loader processes: DataLoader(num_workers=...)"}};
}

// Applies only if no other rule explains the failure.
std::optional<Advice> see_failure(const RunFacts& facts) {
  const Ending& ending = facts.ending;
  if (ending.kind != Ending::Kind::Failed || ending.is_out_of_memory || ending.is_time_limit ||
      !ending.bad_loss.empty()) {
    return std::nullopt;
  }
  std::vector<std::string> tries;
  if (!ending.advice.empty()) {
    tries.push_back(ending.advice);
  }
  tries.push_back(
      fmt::format("last lines of its log: lockstep logs {}-n 20 {}",
                  ending.failed_rank < 0 ? "" : fmt::format("--rank {} ", ending.failed_rank),
                  run_word(facts)));
  return Advice{.rule = {},
                .seen = ending.sentence,
                .means = "the first failure stops all workers",
                .tries = tries};
}

std::optional<Advice> see_time_limit(const RunFacts& facts) {
  if (!facts.ending.is_time_limit) {
    return std::nullopt;
  }
  std::string seen = fmt::format("stopped after {}", format_duration(facts.seconds()));
  if (facts.job.limit_seconds) {
    seen += fmt::format(" by a time limit of {}", format_duration(*facts.job.limit_seconds));
  }
  if (facts.run.steps > 0 && facts.run.step >= 0) {
    seen += fmt::format(", at step {} of {}", facts.run.step, facts.run.steps);
  }
  std::vector<std::string> tries = {
      "a longer limit: lockstep submit --time TIME, lockstep run --timeout SECONDS",
      "save and continue automatically: lockstep run --requeue, lockstep submit --requeue"};
  if (facts.run.checkpoints == 0) {
    tries.emplace_back(facts.is_trainer
                           ? "save checkpoints, as there are none: --checkpoint-every STEPS"
                           : "save checkpoints in the program, so that the next run can resume");
  }
  return Advice{.rule = {},
                .seen = seen,
                .means = "the work did not fit into the time limit",
                .tries = tries};
}

std::optional<Advice> see_lost_launcher(const RunFacts& facts) {
  if (facts.ending.kind != Ending::Kind::Lost || facts.ending.is_time_limit) {
    return std::nullopt;
  }
  std::vector<std::string> tries;
  if (!facts.run.job.empty()) {
    tries.push_back(fmt::format("the state of the job: lockstep status {}", facts.run.job));
  }
  tries.push_back(
      fmt::format("the last lines of its workers: lockstep logs -n 20 {}", run_word(facts)));
  return Advice{.rule = {},
                .seen = "the launcher ended without recording a result",
                .means = "it was killed (SIGKILL, out of memory), or its node failed",
                .tries = tries};
}

// The launcher's record is preferred: it has the text of the worker. Otherwise the first loss in
// the events that was not finite, for programs that continue with it.
std::optional<Advice> see_bad_loss(const RunFacts& facts) {
  std::string seen = facts.ending.bad_loss;
  if (seen.empty() && facts.run.bad_loss_time) {
    seen = facts.run.bad_loss_step >= 0
               ? fmt::format("the loss is not finite from step {} on", facts.run.bad_loss_step)
               : fmt::format("the loss is not finite from {} after the start on",
                             format_duration(*facts.run.bad_loss_time - facts.begin));
  }
  if (seen.empty()) {
    return std::nullopt;
  }
  return Advice{.rule = {},
                .seen = seen,
                .means = "training has diverged; later steps are useless",
                .tries = {facts.is_trainer
                              ? "smaller updates: --lr, --warmup STEPS, --clip 1, --precision bf16 "
                                "instead of fp16"
                              : "a smaller learning rate, a warm-up, clipped gradients"}};
}

// Attempt 0 is shown, because its failure is the first one.
std::optional<Advice> see_restarts(const RunFacts& facts) {
  if (facts.run.restarts == 0) {
    return std::nullopt;
  }
  std::vector<std::string> tries = {
      fmt::format("find the reason: lockstep logs --attempt 0 -n 20 {}", run_word(facts))};
  if (facts.run.checkpoints == 0) {
    tries.emplace_back(facts.is_trainer
                           ? "save checkpoints, so that a restart resumes: --checkpoint-every STEPS"
                           : "save checkpoints in the program, so that a restart resumes");
  }
  return Advice{.rule = {},
                .seen = fmt::format("{}; {}",
                                    plural(facts.run.restarts, "restart"),
                                    plural(facts.run.checkpoints, "checkpoint")),
                .means = facts.run.checkpoints == 0
                             ? "according to the events, each attempt started from scratch"
                             : "the steps after the last checkpoint were repeated",
                .tries = tries};
}

}  // namespace lockstep::report
