// SPDX-License-Identifier: Apache-2.0
//
// Two kinds of output with different readers: lines for people, printed by rank 0, and events
// (docs/events.md), written by every worker to its own file. Numbers in events are those of this
// worker, except for loss and throughput, which concern all.
#include "training/train/loop/reporter.h"

#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "common/os/memory.h"
#include "training/train/loop/device_memory.h"
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

// What a worker exchanges in a step if gradients are not compressed; lockstep scaling --predict
// uses it.
int64_t gradient_bytes(const torch::nn::Module& model) {
  int64_t bytes = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    bytes += parameter.requires_grad() ? parameter.numel() * parameter.element_size() : 0;
  }
  return bytes;
}

}  // namespace

Reporter::Reporter(SessionParts& session,
                   const TrainerOptions& options,
                   const TrainingPosition& position)
    : session_(session),
      options_(options),
      position_(position),
      progress_(session, options.report_every) {}

// begun_ is set last, so that the preparation does not count as training time.
void Reporter::begin(const Introduction& introduction) {
  first_step_ = position_.state.step;
  const Communicator& comm = *session_.communicator;
  const DistributedSampler& sampler = introduction.feed.sampler();
  const int64_t total_steps = position_.total_steps();
  session_.report("start",
                  {{"workers", int64_t{comm.size()}},
                   {"strategy", std::string(introduction.strategy)},
                   {"transport", std::string(comm.kind())},
                   {"global_batch", options_.global_batch},
                   {"gradient_bytes", gradient_bytes(introduction.model)},
                   {"steps", total_steps}});
  progress_.say(fmt::format("training {} parameters with -s {} on {} ({}), {}",
                            format_count(count_parameters(introduction.model)),
                            introduction.strategy,
                            plural(comm.size(), "worker"),
                            comm.kind(),
                            session_.device.str()));
  progress_.say(fmt::format(
      "global batch {} = {} per worker x {}{}; {} steps per epoch, {}; learning rate {:.4g}, {}{}",
      options_.global_batch,
      options_.global_batch % comm.size() == 0
          ? std::to_string(options_.global_batch / comm.size())
          : fmt::format("about {}", options_.global_batch / comm.size()),
      comm.size(),
      options_.accumulate == 1 ? "" : fmt::format(", in {} micro-batches", options_.accumulate),
      sampler.steps(),
      describe_shares(sampler, options_, introduction.feed.samples()),
      introduction.schedule.base_rate(),
      introduction.schedule.text(),
      introduction.schedule.ends_in_warmup(total_steps)
          ? fmt::format(" (training ends within the warm-up, after {} steps)", total_steps)
          : ""));
  for (const std::string& line : introduction.memory) {
    progress_.say(line);
  }
  begun_ = Clock::now();
}

void Reporter::begin_epoch() {
  epoch_throughput_ = Throughput();
  epoch_begun_ = Clock::now();
  if (!summaries_.empty()) {
    epoch_throughput_.add(0);  // includes the wait for the first batch, except in the first epoch
  }
}

// seconds_since_command is the start-up time that users see, from the command to the first step.
void Reporter::count_step(int64_t samples) {
  throughput_.add(samples);
  epoch_throughput_.add(samples);
  if (position_.state.step == 1) {
    const auto seconds = session_.seconds_since_command();
    session_.report("first_step", {{"seconds_since_command", seconds.value_or(-1)}});
  }
}

// Evaluations and checkpoints do not lower the reported throughput of training.
void Reporter::pause(Clock::duration time) {
  throughput_.pause(time);
  epoch_throughput_.pause(time);
}

// The line of DeepSpeed's steps_per_print and, with report_phases, of wall_clock_breakdown.
void Reporter::print_step(int64_t skipped, StepTimer& timer) {
  constexpr int64_t kUsual = 10;  // for wall_clock_breakdown without steps_per_print
  const int64_t every =
      options_.report_steps == 0 && options_.report_phases ? kUsual : options_.report_steps;
  if (!position_.is_multiple(every)) {
    return;
  }
  progress_.say(fmt::format("step {}, {} skipped, learning rate {:.6g}{}",
                            position_.state.step,
                            skipped,
                            position_.state.learning_rate,
                            options_.report_phases ? "; " + timer.take_text(every) : ""));
}

// The rate of the current epoch adapts to changes; the total rate fills in at its beginning.
ProgressView Reporter::view(const StepSyncResult& result) const {
  const double rate = epoch_throughput_.rate() > 0 ? epoch_throughput_.rate() : throughput_.rate();
  const auto left =
      static_cast<double>((position_.total_steps() - position_.state.step) * options_.global_batch);
  return {.epoch = position_.state.epoch + 1,
          .epochs = options_.epochs,
          .step_in_epoch = position_.step_in_epoch,
          .steps_per_epoch = position_.state.steps_per_epoch,
          .loss = result.loss,
          .accuracy = result.accuracy < 0 ? std::nullopt : std::optional(result.accuracy),
          .samples_per_second = rate,
          .seconds_left = rate > 0 ? left / rate : 0};
}

// take() resets the times, so that each event covers the time since the previous one.
void Reporter::report_step(const StepSyncResult& result,
                           std::optional<double> gradient_norm,
                           StepTimer& timer,
                           bool are_all_done) {
  const ProgressView shown = view(result);
  progress_.update(shown);
  const TimeSplit split = timer.take(are_all_done);
  std::vector<std::pair<std::string, contract::Event::Value>> fields = {
      {"step", position_.state.step},
      {"epoch", position_.state.epoch},
      {"loss", position_.state.loss},
      {"learning_rate", position_.state.learning_rate},
      {"samples_per_second", shown.samples_per_second},
      {"data_seconds", split.data},
      {"compute_seconds", split.compute},
      {"update_seconds", split.update},
      {"checkpoint_seconds", split.checkpoint},
      {"memory_bytes", static_cast<int64_t>(os::resident_bytes())}};
  if (split.exchange) {
    fields.emplace_back("exchange_seconds", *split.exchange);
  }
  if (gradient_norm) {
    fields.emplace_back("gradient_norm", *gradient_norm);
  }
  if (const auto bytes = held_device_bytes(session_.device)) {
    fields.emplace_back("device_memory_bytes", *bytes);
  }
  session_.report("step", std::move(fields));
}

void Reporter::report_evaluation() {
  const Evaluation& found = *position_.state.evaluation;
  std::vector<std::pair<std::string, contract::Event::Value>> fields = {
      {"step", position_.state.step},
      {"loss", found.loss},
      {"accuracy", found.accuracy.value_or(-1)},
      {"samples", found.samples}};
  if (found.top5) {
    fields.emplace_back("top5", *found.top5);
  }
  session_.report("evaluation", std::move(fields));
}

// If the epoch is complete, position_ already points to the next one, whose number equals the count
// of completed epochs.
void Reporter::report_epoch(double train_loss, int64_t steps, bool is_complete) {
  const TrainState& state = position_.state;
  const EpochSummary summary{
      .epoch = is_complete ? state.epoch : state.epoch + 1,
      .train_loss = train_loss,
      .test = state.evaluation,
      .samples_per_second = epoch_throughput_.rate(),
      .seconds = std::chrono::duration<double>(Clock::now() - epoch_begun_).count()};
  summaries_.push_back(summary);
  const std::string far =
      is_complete ? " done" : fmt::format(", {} of {} steps", steps, state.steps_per_epoch);
  std::string line = fmt::format(
      "epoch {}/{}{}  train loss {:.4f}", summary.epoch, options_.epochs, far, summary.train_loss);
  if (summary.test) {
    line += fmt::format("  test loss {:.4f}", summary.test->loss);
    if (summary.test->accuracy) {
      line += "  test accuracy " + format_accuracy(*summary.test);
    }
  }
  progress_.say(line + fmt::format("  {} samples/s", format_rate(summary.samples_per_second)));
}

// No summary means that the checkpoint was already at the end of the training.
void Reporter::report_end(const LossScaler& scaler, const std::string& checkpoint) {
  const TrainState& state = position_.state;
  session_.communicator->set_phase("the final summary");
  session_.report("end",
                  {{"step", state.step},
                   {"samples_per_second", throughput_.rate()},
                   {"peak_bytes", static_cast<int64_t>(os::peak_resident_bytes())}});
  if (summaries_.empty()) {
    progress_.say(fmt::format(
        "nothing left to train: {} of {} steps are complete", state.step, position_.total_steps()));
    return;
  }
  progress_.say("\n" + format_table(summaries_));
  if (state.evaluation && state.evaluation->accuracy) {
    progress_.say(fmt::format("test accuracy  {} of {} samples",
                              format_accuracy(*state.evaluation),
                              format_count(state.evaluation->samples)));
  }
  progress_.say("speed          " +
                format_speed(throughput_.rate(), state.step - first_step_, seconds()));
  if (scaler.is_on()) {
    progress_.say(fmt::format(
        "loss scale     {}, {} of {} steps skipped", scaler.scale(), scaler.skipped(), state.step));
  }
  progress_.say(
      fmt::format("memory         {} peak on rank 0", format_bytes(os::peak_resident_bytes())));
  progress_.say(fmt::format("run directory  {}", session_.run_dir.root().string()));
  if (!checkpoint.empty()) {
    progress_.say(fmt::format("checkpoint     {}", checkpoint));
  }
}

// Values of the last evaluation, even if training continued after it.
TrainResult Reporter::result(int64_t skipped) const {
  TrainResult result{.steps = position_.state.step,
                     .epochs = position_.state.epoch,
                     .train_loss = summaries_.empty() ? 0 : summaries_.back().train_loss,
                     .test_loss = std::nullopt,
                     .test_accuracy = std::nullopt,
                     .samples_per_second = throughput_.rate(),
                     .seconds = seconds(),
                     .stopped_early = position_.stopped_early,
                     .skipped_steps = skipped};
  if (position_.state.evaluation) {
    result.test_loss = position_.state.evaluation->loss;
    result.test_accuracy = position_.state.evaluation->accuracy;
    result.test_top5 = position_.state.evaluation->top5;
  }
  return result;
}

double Reporter::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begun_).count();
}

}  // namespace lockstep::train
