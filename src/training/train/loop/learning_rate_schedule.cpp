// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/learning_rate_schedule.h"

#include <algorithm>

#include "common/base/log.h"
#include "lockstep/optimizer.h"
#include "training/train/options/deepspeed_flags.h"

namespace lockstep::train {
namespace {

// "step" divides the rate by ten after each third of the steps behind the warm-up.
Schedule named_schedule(const TrainerOptions& options, int64_t total) {
  const int64_t rest = std::max<int64_t>(1, total - options.warmup_steps);
  Schedule schedule = Schedule::constant();
  if (options.schedule == "cosine") {
    schedule = Schedule::cosine(rest);
  } else if (options.schedule == "step") {
    schedule = Schedule::step(std::max<int64_t>(1, (rest + 2) / 3), 0.1);
  }
  return options.warmup_steps > 0 ? schedule.warmed_up(options.warmup_steps) : schedule;
}

}  // namespace

LearningRateSchedule::LearningRateSchedule(const SessionParts& session,
                                           const TrainerOptions& options,
                                           torch::optim::Optimizer& optimizer,
                                           const std::optional<Schedule>& own)
    : session_(session),
      options_(options),
      optimizer_(optimizer),
      schedule_(own.value_or(Schedule::constant())),
      has_own_(own.has_value()),
      base_rates_(learning_rates(optimizer)) {}

// Precedence: ds_config.json, a schedule that the program has set, --schedule. Called again after a
// resume with another global batch, which changes the number of steps.
void LearningRateSchedule::select(int64_t total_steps) {
  deepspeed::Decisions decisions;
  const auto of_file =
      find_file_schedule(session_.flags, base_rates_.front(), options_, total_steps, decisions);
  for (const std::string& decision : decisions) {
    if (session_.communicator->rank() == 0) {
      log::info("{}", decision);
    }
  }
  if (of_file) {
    schedule_ = *of_file;
  } else if (!has_own_) {
    schedule_ = named_schedule(options_, total_steps);
  }
}

// Computed from the base rates in each step, never from the current ones: a resumed run gets the
// same numbers without any state. Different parameter groups keep their ratio.
double LearningRateSchedule::apply(int64_t step, int64_t skipped) {
  // DeepSpeed's schedulers do not advance in a skipped step.
  const int64_t scheduled = step - (is_of_file() ? skipped : 0);
  std::vector<double> rates = base_rates_;
  std::for_each(
      rates.begin(), rates.end(), [&](double& rate) { rate = schedule_.rate(scheduled, rate); });
  set_learning_rates(optimizer_, rates);
  if (const auto betas = schedule_.betas(scheduled)) {
    set_betas(optimizer_, betas->first, betas->second);
  }
  return rates.front();
}

void LearningRateSchedule::reset() {
  set_learning_rates(optimizer_, base_rates_);
}

bool LearningRateSchedule::ends_in_warmup(int64_t total_steps) const {
  return !has_own_ && !is_of_file() && options_.warmup_steps > 0 &&
         options_.warmup_steps >= total_steps;
}

bool LearningRateSchedule::is_of_file() const {
  return session_.flags.file && session_.flags.file->scheduler;
}

}  // namespace lockstep::train
