// SPDX-License-Identifier: Apache-2.0
//
// One step and what follows it. Lines marked with * contain collectives:
//
//   loader.next() -> to_device() -> StepRunner::run() *   forward, backward, update
//   after_step():
//     callbacks, progress
//     exchange_status() *     about four times per second, and at the end of an epoch
//     stop() *                if an exchange has found a stop signal
//     validate() *            every validate_every steps
//     save() *                every checkpoint_every steps
//   finish_epoch():           sums *, validate() *, callbacks, save() *
#include "training/train/loop/loop.h"

#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "lockstep/error.h"
#include "training/comm/side_stream.h"
#include "training/strategy/properties.h"
#include "training/train/loop/evaluate.h"
#include "training/train/loop/memory_check.h"
#include "training/train/options/precision.h"

namespace lockstep::train {
namespace {

// Checked before the training instead of after the first epoch.
void require_samples_to_test(const Task& task) {
  if (task.test != nullptr && task.test->size() == 0) {
    throw Error(ExitCode::Usage, "cannot evaluate: the test data set has no samples")
        .fact("training", fmt::format("{} samples", format_count(task.train->size())))
        .hint("--no-validation, or null for the test data set in Trainer::fit()");
  }
}

}  // namespace

// Members are initialized in the order of their declaration; later ones keep references to earlier
// ones. warmup_epochs is converted to steps here, because only the sampler knows the length of an
// epoch.
Loop::Loop(SessionParts& session,
           const TrainerOptions& options,
           Task task,
           std::vector<std::unique_ptr<Callback>>& callbacks)
    : session_(session),
      options_(options),
      task_(std::move(task)),
      callbacks_(callbacks),
      position_{.state = {}, .epochs = options.epochs, .step_limit = options.steps},
      feed_(session, options_, task_.train),
      strategy_(make_strategy(session.strategy(), *session.communicator, options.strategy)),
      checkpoints_(session, options_, task_, callbacks),
      sync_(session, *strategy_, task_.model, checkpoints_),
      reporter_(session, options_, position_),
      runner_(session, options_, task_, *strategy_, reporter_) {
  task_.loss = in_precision(
      task_.loss, options_.precision, session_.device, precision_source(session_.flags));
  position_.state.steps_per_epoch = feed_.sampler().steps();
  options_.warmup_steps +=
      std::llround(options_.warmup_epochs * static_cast<double>(feed_.sampler().steps()));
  runner_.schedule().select(position_.total_steps());
}

// The order matters: prepare() detects unwritable directories and describes the optimizer before
// the Strategy changes it; the Strategy adopts the model before the averages and the restored state
// refer to its pieces.
TrainResult Loop::run() {
  require_recompute_known();
  require_jpeg_known();
  require_samples_to_test(task_);
  const StopRequest::Patience patience(session_.stop);
  std::optional<comm::OnSideStream> on_stream;
  if (session_.device.is_cuda()) {
    feed_.open_stream();
  }
  if (const auto stream = runner_.prepare()) {
    on_stream.emplace(*stream);
  }
  task_.model.to(session_.device);
  task_.model.train();
  seed_worker(session_, options_.seed);
  std::vector<std::string> memory;
  if (strategy::has(strategy_->name(), &strategy::Properties::has_zero_stages)) {
    memory = check_memory(session_,
                          task_.model,
                          task_.optimizer,
                          options_.strategy,
                          {.accumulates = options_.accumulate > 1, .averages = options_.ema > 0});
  }
  checkpoints_.prepare();
  strategy_->adopt(task_.model, task_.optimizer);
  if (options_.ema > 0) {
    ema_.emplace(task_.model, *strategy_, options_.ema);
  }
  resume();
  reporter_.begin({.strategy = strategy_->name(),
                   .model = task_.model,
                   .feed = feed_,
                   .schedule = runner_.schedule(),
                   .memory = memory});
  while (!position_.is_finished()) {
    train_epoch();
  }
  checkpoints_.settle();
  checkpoints_.publish_weights();
  for (const auto& callback : callbacks_) {
    callback->on_end(position_.state);
  }
  reporter_.report_end(runner_.loss_scaler(), checkpoints_.last());
  strategy_->leave();
  return reporter_.result(runner_.loss_scaler().skipped());
}

void Loop::require_recompute_known() const {
  if (session_.flags.recompute && !session_.queried_recompute) {
    const bool is_of_file =
        session_.flags.file && session_.flags.file->recompute.value.value_or(false);
    const std::string requested = is_of_file ? "activation_checkpointing" : "--recompute";
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot use {}: the model of this program does not support it", requested))
        .fact("requested", requested, is_of_file ? session_.flags.file->source : "command line")
        .hint(fmt::format("omit {}, or pass Session::recompute() to the model", requested));
  }
}

void Loop::require_jpeg_known() const {
  if (session_.flags.jpeg == "gpu" && !session_.asked_jpeg) {
    throw Error(ExitCode::Usage, "cannot use --jpeg gpu: this program does not support it")
        .fact("requested", "--jpeg gpu", "command line")
        .hint("omit --jpeg, or pass Session::jpeg() to the data set");
  }
}

// set_phase() names what this worker is doing, for stall reports of other workers.
void Loop::train_epoch() {
  feed_.set_epoch(position_.state.epoch);
  sync_.begin_epoch();
  reporter_.begin_epoch();
  Loader loader = feed_.load(position_.step_in_epoch);
  while (!position_.is_finished()) {
    feed_.load_ahead(position_);
    session_.communicator->set_phase("data");
    runner_.timer().begin_data();
    const std::optional<Batch> batch = loader.next();
    if (!batch) {
      break;
    }
    session_.communicator->set_phase("forward and backward");
    train_step(feed_.to_device(*batch));
    runner_.limit_run_ahead();
    after_step();
  }
  finish_epoch();
}

void Loop::train_step(const Batch& batch) {
  const DistributedSampler& sampler = feed_.sampler();
  const StepOutcome outcome =
      runner_.run(batch,
                  {.step = position_.state.step,
                   .global_samples = sampler.global_size(position_.step_in_epoch),
                   .is_full = batch.size() == sampler.global_size(0),
                   .wants_norm = reports_norm()});
  position_.state.learning_rate = outcome.learning_rate;
  sync_.add(outcome, position_.state.step);
  if (ema_ && outcome.is_applied) {
    ema_->update();
  }
}

// Order: the exchange comes first, because stop, validation and saving rely on its result. At the
// end of an epoch finish_epoch() validates and saves, so that both are skipped here.
void Loop::after_step() {
  const int64_t samples = feed_.sampler().global_size(position_.step_in_epoch);
  position_.complete_step();
  reporter_.count_step(samples);
  for (const auto& callback : callbacks_) {
    callback->on_step(position_.state);
  }
  reporter_.print_step(runner_.loss_scaler().skipped(), runner_.timer());
  const bool at_end = position_.is_epoch_complete() || position_.is_finished();
  if (at_end || sync_.is_due(position_.state.step)) {
    exchange_status(at_end);
  }
  if (sync_.is_stop_agreed() && !position_.is_finished()) {
    stop();
  }
  if (!at_end && position_.is_multiple(options_.validate_every)) {
    validate();
  }
  if (!at_end && position_.is_multiple(options_.checkpoint_every)) {
    save();
  }
}

// Whether a status exchange follows this step and reports the norm of its gradient.
bool Loop::reports_norm() const {
  return position_.is_next_step_last() || sync_.is_due(position_.state.step + 1);
}

// The status exchange of all workers, and what follows from it. A save that has finished or failed
// is settled now; with a bad loss or bad weights it is settled before the Error is thrown, so that
// the last good checkpoint is complete.
void Loop::exchange_status(bool checks_weights) {
  const StepSyncResult result = sync_.exchange(position_.state.step, checks_weights);
  if (result.save_done || result.save_failed || result.bad_loss || result.bad_weights) {
    checkpoints_.settle(result.save_failed);
  }
  require_finite(result);
  if (!result.has_samples) {
    return;
  }
  position_.state.loss = result.loss;
  reporter_.report_step(
      result, sync_.take_gradient_norm(), runner_.timer(), /*are_all_done=*/checks_weights);
}

// Not ExitCode::TryAgain: a restart with the same options would end in the same step.
void Loop::require_finite(const StepSyncResult& result) const {
  if (!result.bad_loss && !result.bad_weights) {
    return;
  }
  const std::string what =
      result.bad_loss
          ? fmt::format("the loss is {} at step {} (first on rank {})",
                        result.bad_loss->value,
                        result.bad_loss->step,
                        result.bad_rank)
          : fmt::format("the weights are not finite after step {}", position_.state.step);
  throw Error(ExitCode::Usage, "cannot continue: " + what)
      .fact("learning rate", fmt::format("{:.4g}", position_.state.learning_rate))
      .fact("precision", options_.precision)
      .fact("last checkpoint",
            checkpoints_.last().empty() ? "none in this run" : checkpoints_.last())
      .hint(fmt::format("--lr {:.4g}{}{}",
                        runner_.schedule().base_rate() / 10,
                        options_.clip_norm > 0 ? "" : ", --clip 1",
                        options_.precision == "fp32" ? "" : ", --precision fp32"));
}

// evaluated_step prevents a second evaluation of the same step at the end of an epoch.
// wants_to_stop() must be the same on all workers: callbacks see the same results everywhere.
void Loop::validate() {
  if (task_.test == nullptr || position_.evaluated_step == position_.state.step) {
    return;
  }
  const auto start = Clock::now();
  session_.communicator->set_phase("evaluation");
  position_.evaluated_step = position_.state.step;
  std::optional<Ema::Scope> averaged;
  if (ema_) {
    averaged.emplace(*ema_);
  }
  position_.state.evaluation =
      evaluate(session_,
               strategy_.get(),
               task_.model,
               task_.test,
               task_.loss,
               {.batch = options_.evaluation_batch, .loader_threads = options_.loader_threads});
  if (averaged) {
    averaged->end();
  }
  reporter_.report_evaluation();
  for (const auto& callback : callbacks_) {
    callback->on_evaluation(position_.state);
    position_.stopped_early = position_.stopped_early || callback->wants_to_stop();
  }
  reporter_.pause(Clock::now() - start);
  runner_.timer().pause();
}

// Also called at the end of a training that ends within an epoch.
void Loop::finish_epoch() {
  sync_.finish_epoch();
  const bool is_complete = position_.is_epoch_complete();
  const int64_t steps = position_.step_in_epoch;
  validate();
  if (is_complete) {
    position_.complete_epoch();
  }
  reporter_.report_epoch(sync_.epoch_loss(), steps, is_complete);
  for (const auto& callback : callbacks_) {
    callback->on_epoch(position_.state);
  }
  save();
}

}  // namespace lockstep::train
