// SPDX-License-Identifier: Apache-2.0
// The output part of Loop: progress lines, events and the final table.
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "common/os/memory.h"
#include "training/train/loop/device_memory.h"
#include "training/train/loop/loop.h"
#include "training/train/session/shares.h"

namespace lockstep::train {
namespace {

int64_t count_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    count += parameter.numel();
  }
  return count;
}

}  // namespace

void Loop::introduce() {
  const Communicator& comm = *session_.communicator;
  session_.report("start",
                  {{"workers", int64_t{comm.size()}},
                   {"strategy", std::string(strategy_->name())},
                   {"transport", std::string(comm.kind())},
                   {"global_batch", options_.global_batch},
                   {"steps", total_steps()}});
  progress_.say(fmt::format("training {} parameters with -s {} on {} ({}), {}",
                            format_count(count_parameters(task_.model)),
                            strategy_->name(),
                            plural(comm.size(), "worker"),
                            comm.kind(),
                            session_.device.str()));
  const bool is_of_file = session_.flags.file && session_.flags.file->scheduler;
  const bool ends_early = !has_own_schedule_ && !is_of_file && options_.warmup_steps > 0 &&
                          options_.warmup_steps >= total_steps();
  progress_.say(fmt::format(
      "global batch {} = {} per worker x {}{}; {} steps per epoch, {}; learning rate {:.4g}, {}{}",
      options_.global_batch,
      options_.global_batch % comm.size() == 0
          ? std::to_string(options_.global_batch / comm.size())
          : fmt::format("about {}", options_.global_batch / comm.size()),
      comm.size(),
      options_.accumulate == 1 ? "" : fmt::format(", in {} micro-batches", options_.accumulate),
      sampler_.steps(),
      describe_shares(sampler_, options_, task_.train->size()),
      base_rates_.front(),
      schedule_.text(),
      ends_early ? fmt::format(" (training ends within the warm-up, after {} steps)", total_steps())
                 : ""));
  for (const std::string& line : memory_) {
    progress_.say(line);
  }
}

ProgressView Loop::view(const Agreed& news) const {
  const double rate = epoch_throughput_.rate() > 0 ? epoch_throughput_.rate() : throughput_.rate();
  const auto left = static_cast<double>((total_steps() - state_.step) * options_.global_batch);
  return {.epoch = state_.epoch + 1,
          .epochs = options_.epochs,
          .step_in_epoch = step_in_epoch_,
          .steps_per_epoch = sampler_.steps(),
          .loss = news.loss,
          .accuracy = news.accuracy < 0 ? std::nullopt : std::optional(news.accuracy),
          .samples_per_second = rate,
          .seconds_left = rate > 0 ? left / rate : 0};
}

// Whether a status exchange follows this step and reports the norm of its gradient.
bool Loop::tells_norm() const {
  const bool is_last = step_in_epoch_ + 1 >= sampler_.steps() || state_.step + 1 >= total_steps();
  return is_last || agreement_.is_due(state_.step + 1);
}

// Writes a step event. Times are those of this worker since the previous step event.
void Loop::report_step(double samples_per_second, bool are_all_done) {
  const TimeSplit split = take_split(are_all_done);
  std::vector<std::pair<std::string, contract::Event::Value>> fields = {
      {"step", state_.step},
      {"epoch", state_.epoch},
      {"loss", state_.loss},
      {"learning_rate", state_.learning_rate},
      {"samples_per_second", samples_per_second},
      {"data_seconds", split.data},
      {"compute_seconds", split.compute},
      {"update_seconds", split.update},
      {"checkpoint_seconds", phase_times_.take_seconds(PhaseTimes::Checkpoint)},
      {"memory_bytes", static_cast<int64_t>(os::resident_bytes())}};
  if (split.exchange) {
    fields.emplace_back("exchange_seconds", *split.exchange);
  }
  if (const auto norm = std::exchange(gradient_norm_, std::nullopt)) {
    fields.emplace_back("gradient_norm", *norm);
  }
  if (const auto bytes = held_device_bytes(session_.device)) {
    fields.emplace_back("device_memory_bytes", *bytes);
  }
  session_.report("step", std::move(fields));
}

void Loop::report_evaluation() {
  const Evaluation& found = *state_.evaluation;
  std::vector<std::pair<std::string, contract::Event::Value>> fields = {
      {"step", state_.step},
      {"loss", found.loss},
      {"accuracy", found.accuracy.value_or(-1)},
      {"samples", found.samples}};
  if (found.top5) {
    fields.emplace_back("top5", *found.top5);
  }
  session_.report("evaluation", std::move(fields));
}

void Loop::summarise() {
  session_.communicator->set_phase("the final summary");
  session_.report("end",
                  {{"step", state_.step},
                   {"samples_per_second", throughput_.rate()},
                   {"peak_bytes", static_cast<int64_t>(os::peak_resident_bytes())}});
  if (summaries_.empty()) {
    progress_.say(fmt::format(
        "nothing left to train: {} of {} steps are complete", state_.step, total_steps()));
    return;
  }
  progress_.say("\n" + format_table(summaries_));
  if (state_.evaluation && state_.evaluation->accuracy) {
    progress_.say(fmt::format("test accuracy  {} of {} samples",
                              format_accuracy(*state_.evaluation),
                              format_count(state_.evaluation->samples)));
  }
  const std::chrono::duration<double> taken = Clock::now() - begun_;
  progress_.say("speed          " +
                format_speed(throughput_.rate(), state_.step - first_step_, taken.count()));
  if (loss_scaler_.is_on()) {
    progress_.say(fmt::format("loss scale     {}, {} of {} steps skipped",
                              loss_scaler_.scale(),
                              loss_scaler_.skipped(),
                              state_.step));
  }
  progress_.say(
      fmt::format("memory         {} peak on rank 0", format_bytes(os::peak_resident_bytes())));
  progress_.say(fmt::format("run directory  {}", session_.run_dir.root().string()));
  if (!last_checkpoint_.empty()) {
    progress_.say(fmt::format("checkpoint     {}", last_checkpoint_));
  }
}

// The line of DeepSpeed's steps_per_print; wall_clock_breakdown adds the time of each phase.
void Loop::report_steps() {
  constexpr int64_t kUsual = 10;  // for wall_clock_breakdown without steps_per_print
  const int64_t every =
      options_.report_steps == 0 && options_.report_phases ? kUsual : options_.report_steps;
  if (!is_multiple(every)) {
    return;
  }
  progress_.say(fmt::format("step {}, {} skipped, learning rate {:.6g}{}",
                            state_.step,
                            loss_scaler_.skipped(),
                            state_.learning_rate,
                            options_.report_phases ? "; " + phase_times_.take(every) : ""));
}

}  // namespace lockstep::train
