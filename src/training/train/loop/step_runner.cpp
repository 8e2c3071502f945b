// SPDX-License-Identifier: Apache-2.0
//
// How a step is executed:
//
//   steps 1 to 3          compute(): operators are queued one by one
//   step 4, full batch    record_graph(), then replay()
//   later steps           replay() for full batches, compute() for smaller ones
//
// If a graph is impossible (reason_against_graph) or recording fails, all steps use compute().
#include "training/train/loop/step_runner.h"

#include <fmt/format.h>

#include "common/base/log.h"
#include "training/comm/stream_mark.h"
#include "training/optim/fused.h"
#include "training/strategy/properties.h"
#include "training/train/loop/convolution.h"

namespace lockstep::train {
namespace {

// Steps before one is recorded as a CUDA graph. In these, libraries select their algorithms and the
// optimizer creates its state.
constexpr int64_t kStepsBeforeGraph = 3;

}  // namespace

StepRunner::StepRunner(const SessionParts& session,
                       const TrainerOptions& options,
                       const Task& task,
                       Strategy& strategy,
                       Reporter& reporter)
    : session_(session),
      options_(options),
      task_(task),
      strategy_(strategy),
      reporter_(reporter),
      loss_scaler_(options.loss_scale, options.precision, options.loss_scaling),
      timer_(*session.communicator, session.device),
      schedule_(session, options, task.optimizer, task.schedule) {}

std::optional<comm::SideStream> StepRunner::prepare() {
  if (!session_.device.is_cuda()) {
    if (session_.flags.cuda_graph == "on") {
      log::warn("--cuda-graph on has no effect: this worker trains on the CPU");
    }
    return std::nullopt;
  }
  run_ahead_.emplace(session_.device);
  if (comm::kHasStreamTimes) {
    timer_.measure_stream();
  }
  const std::string reason = reason_against_graph();
  if (reason.empty()) {
    steps_before_graph_ = kStepsBeforeGraph;
    return comm::SideStream(session_.device);
  }
  if (session_.flags.cuda_graph == "on") {
    log::warn("--cuda-graph on has no effect: {}", reason);
  }
  return std::nullopt;
}

// Returns why this training cannot use a CUDA graph; empty: it can. The common cause is host code
// in the middle of a step, which a graph would not execute again.
std::string StepRunner::reason_against_graph() const {
  if (session_.flags.cuda_graph == "off") {
    return "--cuda-graph off";
  }
  if (!has_graphs()) {
    return "CUDA graphs require a build with CUDA and libtorch 2.6 or later";
  }
  if (session_.communicator->size() > 1) {
    return "workers communicate through the host during a step";
  }
  if (!strategy::has(strategy_.name(), &strategy::Properties::can_record_step)) {
    return fmt::format("-s {} schedules its communication on the host", strategy_.name());
  }
  if (options_.accumulate > 1) {
    return "--accumulate splits a step into several parts";
  }
  if (loss_scaler_.is_on()) {
    return "the loss scale is computed on the host";
  }
  if (session_.flags.recompute) {
    return "--recompute restores random number generators on the host";
  }
  if (dynamic_cast<optim::FusedOptimizer*>(&task_.optimizer) == nullptr) {
    return "the optimizer must be sgd, adam, adamw or muon from make_optimizer()";
  }
  return "";
}

// -1 means: do not try again.
void StepRunner::record_graph(const Batch& batch) {
  std::string reason;
  const auto begun = StepTimer::Clock::now();
  steps_before_graph_ = -1;
  graph_ = record_step({.strategy = strategy_,
                        .model = task_.model,
                        .optimizer = task_.optimizer,
                        .loss = task_.loss,
                        .step = {.clip_norm = options_.clip_norm, .wants_norm = false}},
                       batch,
                       reason);
  if (graph_ != nullptr) {
    log::debug("recorded a CUDA graph of a step in {:.0f} ms",
               std::chrono::duration<double, std::milli>(StepTimer::Clock::now() - begun).count());
  } else {
    reporter_.say("no CUDA graph: " + reason);
  }
}

void StepRunner::choose_convolution_once(const Batch& batch) {
  if (convolution_chosen_) {
    return;
  }
  convolution_chosen_ = true;
  // A resumed run uses the kernel of the first run, so that it continues bit for bit.
  const std::string wanted = convolution_.empty() ? session_.flags.convolution : convolution_;
  const auto use = strategy_.use_model();  // the model may be partitioned
  const ConvolutionChoice choice =
      choose_convolution(wanted, task_.model, task_.loss, batch, *session_.communicator);
  convolution_ = choice.kernel;
  if (!choice.text.empty()) {
    reporter_.say(choice.text);
  }
}

// The learning rate is set before the step, in host memory; a graph reads it from GPU memory, to
// which play() copies it.
StepOutcome StepRunner::run(const Batch& batch, const StepPlan& plan) {
  StepOutcome outcome;
  choose_convolution_once(batch);
  outcome.learning_rate = schedule_.apply(plan.step, loss_scaler_.skipped());
  // The graph is recorded with a full batch. The last batch of an epoch can be smaller and is then
  // computed without the graph.
  if (steps_before_graph_ == 0 && plan.is_full) {
    record_graph(batch);
  }
  steps_before_graph_ -= steps_before_graph_ > 0 ? 1 : 0;
  timer_.begin_step();
  if (graph_ != nullptr && graph_->fits(batch)) {
    replay(batch, plan, outcome);
  } else {
    compute(batch, plan, outcome);
  }
  timer_.end_step();
  return outcome;
}

void StepRunner::replay(const Batch& batch, const StepPlan& plan, StepOutcome& outcome) {
  Loss loss = graph_->play(batch);
  // The next replay overwrites the tensor.
  loss.value = loss.value.clone();
  outcome.losses.emplace_back(std::move(loss), batch);
  if (plan.wants_norm) {
    outcome.late_norm = graph_->norm();
  }
}

// weight: the strategies average over workers, and each loss is a mean over its own samples. With
// `share` samples on this worker, share x workers / all makes the sum the mean over the global
// batch, also if shares have different sizes. The norm is read at once on a CPU; on a GPU it stays
// there until the next status exchange.
void StepRunner::compute(const Batch& batch, const StepPlan& plan, StepOutcome& outcome) {
  const auto workers = static_cast<double>(session_.communicator->size());
  const auto all = static_cast<double>(plan.global_samples);
  for (int64_t part = 0; part < options_.accumulate; ++part) {
    const int64_t begin = batch.size() * part / options_.accumulate;
    const int64_t end = batch.size() * (part + 1) / options_.accumulate;
    const Batch share = options_.accumulate == 1 ? batch : batch.slice(begin, end);
    const double weight = static_cast<double>(share.size()) * workers / all;
    outcome.losses.emplace_back(strategy_.accumulate(task_.loss,
                                                     share,
                                                     {.weight = weight * loss_scaler_.scale(),
                                                      .last = part + 1 == options_.accumulate}),
                                share);
  }
  timer_.begin_update();
  const bool is_on_cpu = session_.device.is_cpu();
  const StepResult result = strategy_.step({.clip_norm = options_.clip_norm,
                                            .loss_scale = loss_scaler_.scale(),
                                            .check_finite = loss_scaler_.is_on(),
                                            .wants_norm = plan.wants_norm && is_on_cpu,
                                            .wants_late_norm = plan.wants_norm && !is_on_cpu});
  timer_.end_update();
  outcome.norm = result.applied && result.norm > 0 ? std::optional(result.norm) : std::nullopt;
  outcome.late_norm = result.late_norm;
  outcome.is_applied = result.applied;
  loss_scaler_.after_step(plan.step + 1, result.applied);
}

// The host queues steps faster than the GPU executes them. Without a limit it would hold the memory
// of many batches, and a stop signal or a bad loss would be noticed late.
void StepRunner::limit_run_ahead() {
  if (!run_ahead_) {
    return;
  }
  // The host may wait here for a GPU that waits for the messages of other workers. The scope makes
  // stall warnings name the exchange.
  Communicator& communicator = *session_.communicator;
  const std::optional<CallScope> scope =
      communicator.device() ? std::optional(communicator.enter("the exchange of gradients"))
                            : std::nullopt;
  run_ahead_->step();
}

void StepRunner::restore(const std::string& convolution, const std::string& loss_scale) {
  convolution_ = convolution;
  loss_scaler_.restore(loss_scale);
}

}  // namespace lockstep::train
