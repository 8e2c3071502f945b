// SPDX-License-Identifier: Apache-2.0
#include "train/loop.h"

#include <algorithm>
#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"
#include "lockstep/error.h"
#include "os/memory.h"
#include "os/signals.h"
#include "train/convolution.h"
#include "train/evaluate.h"
#include "train/precision.h"
#include "train/stopped.h"

namespace lockstep::train {
namespace {

// Accuracy while training is for people: a share of the steps is enough, and keeps small models
// fast.
constexpr int64_t kScoreEvery = 4;

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

// TensorFlow's policies; the first of its names is data here, which gives the same training as
// every other strategy.
Sharding choose_sharding(const std::string& policy,
                         const std::vector<int64_t>& files,
                         int workers) {
  if (policy == "off") {
    return Sharding::Off;
  }
  const bool has_enough = static_cast<int>(files.size()) >= workers;
  return policy == "file" || (policy == "auto" && has_enough && workers > 1) ? Sharding::File
                                                                             : Sharding::Data;
}

SamplerOptions sampler_options(const SessionParts& session,
                               const TrainerOptions& options,
                               const DatasetPtr& train) {
  return {.dataset_size = train->size(),
          .global_batch = options.global_batch,
          .rank = session.communicator->rank(),
          .world_size = session.communicator->size(),
          .tail = options.tail,
          .seed = options.seed,
          .sharding = choose_sharding(
              session.flags.auto_shard, train->files(), session.communicator->size()),
          .files = train->files()};
}

// "96 samples dropped", or how samples are shared out otherwise.
std::string describe_shares(const DistributedSampler& sampler,
                            const TrainerOptions& options,
                            int64_t samples) {
  if (sampler.sharding() != Sharding::Data) {
    return sampler.sharding() == Sharding::File ? "whole files to each worker"
                                                : "all samples to each worker";
  }
  const int64_t taken = sampler.steps() * options.global_batch;
  return options.tail == Tail::Drop ? fmt::format("{} samples dropped", samples - taken)
                                    : fmt::format("{} samples padded", taken - samples);
}

Retention retention(const TrainerOptions& options, const DatasetPtr& test) {
  Retention keep{.keep_last = options.keep_checkpoints};
  if (test != nullptr) {
    keep.best_metric = "test_loss";
    keep.best_is_max = false;
  }
  return keep;
}

int64_t count_parameters(const torch::nn::Module& model) {
  int64_t count = 0;
  for (const torch::Tensor& parameter : model.parameters()) {
    count += parameter.numel();
  }
  return count;
}

}  // namespace

Loop::Loop(SessionParts& session,
           const TrainerOptions& options,
           Task task,
           const std::optional<Schedule>& schedule,
           std::vector<std::unique_ptr<Callback>>& callbacks)
    : session_(session),
      options_(options),
      task_(std::move(task)),
      callbacks_(callbacks),
      sampler_(sampler_options(session, options, task_.train)),
      schedule_(schedule.value_or(Schedule::constant())),
      strategy_(make_strategy(session.strategy(), *session.communicator, options.strategy)),
      checkpointing_(session, task_.model, task_.optimizer, retention(options, task_.test)),
      agreement_(*session.communicator),
      progress_(session, options.report_every),
      loss_scaler_(options.loss_scale, options.precision),
      base_rates_(learning_rates(task_.optimizer)) {
  task_.loss = in_precision(task_.loss, options_.precision, session_.device);
  state_.steps_per_epoch = sampler_.steps();
  if (!schedule) {
    schedule_ = named_schedule(options_, total_steps());
  }
}

int64_t Loop::total_steps() const {
  const int64_t all = options_.epochs * sampler_.steps();
  return options_.steps > 0 ? std::min(options_.steps, all) : all;
}

bool Loop::is_finished() const {
  return stopped_early_ || state_.step >= total_steps();
}

TrainResult Loop::run() {
  require_recompute_known();
  const StopRequest::Patience patience(session_.stop);
  task_.model.to(session_.device);
  task_.model.train();
  seed_worker(session_, options_.seed);
  strategy_->adopt(task_.model, task_.optimizer);
  if (options_.ema > 0) {
    ema_.emplace(task_.model, options_.ema);
  }
  resume();
  introduce();
  begun_ = Clock::now();
  while (!is_finished()) {
    train_epoch();
  }
  for (const auto& callback : callbacks_) {
    callback->on_end(state_);
  }
  summarise();
  TrainResult result{.steps = state_.step,
                     .epochs = state_.epoch,
                     .train_loss = summaries_.empty() ? 0 : summaries_.back().train_loss,
                     .test_loss = std::nullopt,
                     .test_accuracy = std::nullopt,
                     .samples_per_second = throughput_.rate(),
                     .seconds = std::chrono::duration<double>(Clock::now() - begun_).count(),
                     .stopped_early = stopped_early_,
                     .skipped_steps = loss_scaler_.skipped()};
  if (state_.evaluation) {
    result.test_loss = state_.evaluation->loss;
    result.test_accuracy = state_.evaluation->accuracy;
  }
  return result;
}

void Loop::require_recompute_known() const {
  if (session_.flags.recompute && !session_.asked_recompute) {
    throw Error(ExitCode::Usage, "cannot use --recompute: this program's model does not offer it")
        .fact("asked", "--recompute", "command line")
        .hint("leave out --recompute, or build the model with what Session::recompute() says");
  }
}

void Loop::resume() {
  const std::optional<Checkpointing::Restored> restored = checkpointing_.restore();
  if (!restored) {
    return;
  }
  const CheckpointState* saved = &restored->state;
  const bool speaks = session_.communicator->rank() == 0;
  if (saved->seed != options_.seed) {
    if (speaks) {
      log::warn("the checkpoint's seed {} is used, not {}: the order of samples goes on",
                saved->seed,
                options_.seed);
    }
    options_.seed = saved->seed;
    sampler_ = DistributedSampler(sampler_options(session_, options_, task_.train));
  }
  state_.step = saved->step;
  state_.epoch = saved->epoch;
  step_in_epoch_ = saved->step_in_epoch;
  if (saved->global_batch != options_.global_batch) {
    step_in_epoch_ = step_in_epoch_ * saved->global_batch / options_.global_batch;
    if (speaks) {
      log::warn("the global batch was {} and is {}: goes on at step {} of the epoch",
                saved->global_batch,
                options_.global_batch,
                step_in_epoch_);
    }
  }
  // Rates in the optimizer are those of the step that was saved; the schedule starts from these.
  set_learning_rates(task_.optimizer, base_rates_);
  const auto note = [&saved](const std::string& name) {
    const auto found = saved->notes.find(name);
    return found == saved->notes.end() ? std::string() : found->second;
  };
  convolution_ = note("convolution");
  loss_scaler_.restore(note("loss_scale"));
  if (ema_) {
    // Averages of the random weights of this start would be worth nothing.
    ema_.emplace(task_.model, options_.ema);
    if (!restored->averages.empty()) {
      ema_->restore(restored->averages, std::stoll(note("ema_updates")));
    } else if (speaks) {
      log::warn("the checkpoint has no averaged weights: --ema begins with the trained ones");
    }
  }
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    if (const std::string text = note(fmt::format("callback-{}", i)); !text.empty()) {
      callbacks_[i]->restore(text);
    }
  }
}

void Loop::introduce() {
  const Communicator& comm = *session_.communicator;
  session_.report("start",
                  {{"workers", int64_t{comm.size()}},
                   {"strategy", std::string(strategy_->name())},
                   {"transport", std::string(comm.kind())},
                   {"global_batch", options_.global_batch},
                   {"steps", total_steps()}});
  progress_.say(fmt::format("training {} parameters with -s {} on {} worker{} ({}), {}",
                            format_count(count_parameters(task_.model)),
                            strategy_->name(),
                            comm.size(),
                            comm.size() == 1 ? "" : "s",
                            comm.kind(),
                            session_.device.str()));
  progress_.say(fmt::format(
      "global batch {} = {} per worker x {}{}; {} steps per epoch, {}; learning rate {:.4g}, {}",
      options_.global_batch,
      options_.global_batch % comm.size() == 0
          ? std::to_string(options_.global_batch / comm.size())
          : fmt::format("about {}", options_.global_batch / comm.size()),
      comm.size(),
      options_.accumulate == 1 ? "" : fmt::format(", in {} micro-batches", options_.accumulate),
      sampler_.steps(),
      describe_shares(sampler_, options_, task_.train->size()),
      base_rates_.front(),
      schedule_.text()));
}

void Loop::train_epoch() {
  sampler_.set_epoch(state_.epoch);
  epoch_.reset();
  epoch_throughput_ = Throughput();
  epoch_begun_ = Clock::now();
  Loader loader(task_.train,
                sampler_,
                {.first_step = step_in_epoch_,
                 .threads = options_.loader_threads,
                 .pin_memory = session_.device.is_cuda()});
  while (!is_finished()) {
    session_.communicator->set_phase("data");
    const std::optional<Batch> batch = loader.next();
    if (!batch) {
      break;
    }
    session_.communicator->set_phase("forward and backward");
    train_step(batch->to(session_.device, true));
    after_step();
  }
  finish_epoch();
}

void Loop::train_step(const Batch& batch) {
  choose_convolution_once(batch);
  const double factor = schedule_.factor(state_.step);
  std::vector<double> rates = base_rates_;
  std::for_each(rates.begin(), rates.end(), [factor](double& rate) { rate *= factor; });
  set_learning_rates(task_.optimizer, rates);
  state_.learning_rate = rates.front();

  const auto workers = static_cast<double>(session_.communicator->size());
  const auto all = static_cast<double>(sampler_.global_size(step_in_epoch_));
  std::vector<std::pair<Loss, Batch>> results;
  for (int64_t part = 0; part < options_.accumulate; ++part) {
    const int64_t begin = batch.size() * part / options_.accumulate;
    const int64_t end = batch.size() * (part + 1) / options_.accumulate;
    const Batch share = options_.accumulate == 1 ? batch : batch.slice(begin, end);
    const double weight = static_cast<double>(share.size()) * workers / all;
    results.emplace_back(strategy_->accumulate(task_.loss,
                                               share,
                                               {.weight = weight * loss_scaler_.scale(),
                                                .last = part + 1 == options_.accumulate}),
                         share);
  }
  const StepResult result = strategy_->step({.clip_norm = options_.clip_norm,
                                             .loss_scale = loss_scaler_.scale(),
                                             .check_finite = loss_scaler_.is_on()});
  loss_scaler_.after_step(state_.step + 1, result.applied);
  if (!result.applied) {
    return;
  }
  count(results);
  if (ema_) {
    ema_->update();
  }
}

// A step that was left out is not counted: its loss may have left the range of numbers as well.
void Loop::count(const std::vector<std::pair<Loss, Batch>>& results) {
  const bool scores = state_.step % kScoreEvery == 0;
  for (const auto& [loss, share] : results) {
    lately_.add(loss.value, share.size());
    loss_watch_.add(loss.value, state_.step + 1);
    if (scores && loss.scores.defined()) {
      lately_.add_scores(loss.scores, share.target);
    }
  }
}

void Loop::choose_convolution_once(const Batch& batch) {
  if (convolution_chosen_) {
    return;
  }
  convolution_chosen_ = true;
  // A resumed run computes as the first one did, whatever would be faster now.
  const std::string wanted = convolution_.empty() ? session_.flags.convolution : convolution_;
  const ConvolutionChoice choice =
      choose_convolution(wanted, task_.model, task_.loss, batch, *session_.communicator);
  convolution_ = choice.kernel;
  if (!choice.text.empty()) {
    progress_.say(choice.text);
  }
}

void Loop::after_step() {
  const int64_t samples = sampler_.global_size(step_in_epoch_);
  ++state_.step;
  ++step_in_epoch_;
  throughput_.add(samples);
  epoch_throughput_.add(samples);
  if (state_.step == 1) {
    const auto seconds = session_.seconds_since_command();
    session_.report("first_step", {{"seconds_since_command", seconds.value_or(-1)}});
  }
  for (const auto& callback : callbacks_) {
    callback->on_step(state_);
  }
  const bool at_end = step_in_epoch_ >= sampler_.steps() || is_finished();
  if (at_end || agreement_.is_due(state_.step)) {
    talk(at_end);
  }
  if (stop_agreed_ && !is_finished()) {
    stop();
  }
  if (!at_end && is_multiple(options_.validate_every)) {
    validate();
  }
  if (!at_end && is_multiple(options_.checkpoint_every)) {
    save();
  }
}

void Loop::talk(bool looks_at_weights) {
  const Tally mine{.loss_sum = lately_.loss() * static_cast<double>(lately_.samples()),
                   .samples = static_cast<double>(lately_.samples()),
                   .correct = lately_.correct(),
                   .scored = static_cast<double>(lately_.scored()),
                   .stop = session_.find_stop_signal().has_value(),
                   .bad_loss = loss_watch_.find_first_bad(),
                   .bad_weights = looks_at_weights && !has_finite_weights(task_.model)};
  const bool is_news = lately_.samples() > 0;
  const Agreed news = agreement_.talk(state_.step, mine);
  require_finite(news);
  checked_step_ = looks_at_weights ? state_.step : checked_step_;
  loss_watch_.reset();
  epoch_.merge(lately_);
  lately_.reset();
  stop_agreed_ = stop_agreed_ || news.stop;
  if (!is_news) {
    return;
  }
  state_.loss = news.loss;
  const ProgressView shown = view(news);
  progress_.update(shown);
  session_.report("step",
                  {{"step", state_.step},
                   {"epoch", state_.epoch},
                   {"loss", news.loss},
                   {"learning_rate", state_.learning_rate},
                   {"samples_per_second", shown.samples_per_second}});
}

// Asking again with the same flags would end in the same step: not ExitCode::TryAgain.
void Loop::require_finite(const Agreed& news) const {
  if (!news.bad_loss && !news.bad_weights) {
    return;
  }
  const std::string what =
      news.bad_loss ? fmt::format("the loss is {} at step {} (first on rank {})",
                                  news.bad_loss->value,
                                  news.bad_loss->step,
                                  news.bad_rank)
                    : fmt::format("the weights are not finite after step {}", state_.step);
  throw Error(ExitCode::Usage, "cannot go on: " + what)
      .fact("learning rate", fmt::format("{:.4g}", state_.learning_rate))
      .fact("precision", options_.precision)
      .fact("last checkpoint", last_checkpoint_.empty() ? "none in this run" : last_checkpoint_)
      .hint(fmt::format("--lr {:.4g}{}{}",
                        base_rates_.front() / 10,
                        options_.clip_norm > 0 ? "" : ", --clip 1",
                        options_.precision == "fp32" ? "" : ", --precision fp32"));
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

void Loop::validate() {
  if (task_.test == nullptr || evaluation_step_ == state_.step) {
    return;
  }
  const auto start = Clock::now();
  session_.communicator->set_phase("evaluation");
  evaluation_step_ = state_.step;
  std::optional<Ema::Scope> averaged;
  if (ema_) {
    averaged.emplace(*ema_);
  }
  state_.evaluation =
      evaluate(session_, task_.model, task_.test, task_.loss, options_.evaluation_batch);
  averaged.reset();
  session_.report("evaluation",
                  {{"step", state_.step},
                   {"loss", state_.evaluation->loss},
                   {"accuracy", state_.evaluation->accuracy.value_or(-1)},
                   {"samples", state_.evaluation->samples}});
  for (const auto& callback : callbacks_) {
    callback->on_evaluation(state_);
    stopped_early_ = stopped_early_ || callback->wants_to_stop();
  }
  throughput_.pause(Clock::now() - start);
  epoch_throughput_.pause(Clock::now() - start);
}

CheckpointState Loop::checkpoint_state() const {
  CheckpointState saved{.step = state_.step,
                        .epoch = state_.epoch,
                        .step_in_epoch = step_in_epoch_,
                        .seed = options_.seed,
                        .global_batch = options_.global_batch,
                        .world_size = session_.communicator->size(),
                        .metrics = {},
                        .notes = {{"strategy", std::string(strategy_->name())},
                                  {"schedule", schedule_.text()},
                                  {"convolution", convolution_}}};
  if (loss_scaler_.is_on()) {
    saved.notes["loss_scale"] = loss_scaler_.state();
  }
  if (ema_) {
    saved.notes["ema_updates"] = std::to_string(ema_->updates());
  }
  if (state_.evaluation && evaluation_step_ == state_.step) {
    saved.metrics["test_loss"] = state_.evaluation->loss;
    if (state_.evaluation->accuracy) {
      saved.metrics["test_accuracy"] = *state_.evaluation->accuracy;
    }
  }
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    if (const std::string text = callbacks_[i]->state(); !text.empty()) {
      saved.notes[fmt::format("callback-{}", i)] = text;
    }
  }
  return saved;
}

void Loop::save() {
  if (options_.checkpoint_every < 0 || checkpoint_step_ == state_.step) {
    return;
  }
  const auto start = Clock::now();
  // A checkpoint that nobody could go on from would push out a good one.
  if (checked_step_ != state_.step) {
    talk(true);
  }
  session_.communicator->set_phase("a checkpoint");
  checkpoint_step_ = state_.step;
  last_checkpoint_ =
      checkpointing_.save(checkpoint_state(), ema_ ? ema_->tensors() : NamedTensors{}).string();
  session_.report("checkpoint",
                  {{"step", state_.step},
                   {"directory", last_checkpoint_},
                   {"seconds", std::chrono::duration<double>(Clock::now() - start).count()}});
  for (const auto& callback : callbacks_) {
    callback->on_checkpoint(state_, last_checkpoint_);
  }
  throughput_.pause(Clock::now() - start);
  epoch_throughput_.pause(Clock::now() - start);
}

// Also at the end of a training that ends within an epoch.
void Loop::finish_epoch() {
  epoch_.all_reduce(*session_.communicator);
  const bool is_whole = step_in_epoch_ >= sampler_.steps();
  validate();
  if (is_whole) {
    ++state_.epoch;
    step_in_epoch_ = 0;
  }
  const EpochSummary summary{
      .epoch = is_whole ? state_.epoch : state_.epoch + 1,
      .train_loss = epoch_.loss(),
      .test = state_.evaluation,
      .samples_per_second = epoch_throughput_.rate(),
      .seconds = std::chrono::duration<double>(Clock::now() - epoch_begun_).count()};
  summaries_.push_back(summary);
  std::string line = fmt::format(
      "epoch {}/{} done  train loss {:.4f}", summary.epoch, options_.epochs, summary.train_loss);
  if (task_.test != nullptr) {
    line += fmt::format("  test loss {:.4f}", state_.evaluation->loss);
    if (state_.evaluation->accuracy) {
      line += fmt::format("  test accuracy {:.2f} %", *state_.evaluation->accuracy * 100);
    }
  }
  progress_.say(line + fmt::format("  {} images/s",
                                   format_count(static_cast<int64_t>(summary.samples_per_second))));
  for (const auto& callback : callbacks_) {
    callback->on_epoch(state_);
  }
  if (options_.checkpoint_every == 0 || is_finished() || is_multiple(options_.checkpoint_every)) {
    save();
  }
}

void Loop::summarise() {
  session_.communicator->set_phase("what comes after training");
  session_.report("end",
                  {{"step", state_.step},
                   {"samples_per_second", throughput_.rate()},
                   {"peak_bytes", static_cast<int64_t>(os::peak_resident_bytes())}});
  if (summaries_.empty()) {
    progress_.say(
        fmt::format("nothing left to train: step {} of {} is done", state_.step, total_steps()));
    return;
  }
  progress_.say("\n" + format_table(summaries_));
  if (state_.evaluation && state_.evaluation->accuracy) {
    progress_.say(fmt::format("test accuracy  {:.2f} % of {} images",
                              *state_.evaluation->accuracy * 100,
                              format_count(state_.evaluation->samples)));
  }
  progress_.say(
      fmt::format("speed          {} images/s, {} steps in {}",
                  format_count(static_cast<int64_t>(throughput_.rate())),
                  format_count(state_.step),
                  format_duration(std::chrono::duration<double>(Clock::now() - begun_).count())));
  if (loss_scaler_.is_on()) {
    progress_.say(fmt::format("loss scale     {}, {} of {} steps left out",
                              loss_scaler_.scale(),
                              loss_scaler_.skipped(),
                              state_.step));
  }
  progress_.say(
      fmt::format("memory         {} at most on rank 0", format_bytes(os::peak_resident_bytes())));
  progress_.say(fmt::format("run directory  {}", session_.run_dir.root().string()));
  if (!last_checkpoint_.empty()) {
    progress_.say(fmt::format("checkpoint     {}", last_checkpoint_));
  }
}

void Loop::stop() {
  save();
  const int signal = session_.find_stop_signal().value_or(SIGTERM);
  throw Stopped(signal,
                fmt::format("stopped at step {} of {}{}",
                            state_.step,
                            total_steps(),
                            last_checkpoint_.empty() ? ""
                                                     : ", saved in " + last_checkpoint_ +
                                                           "; --resume auto goes on from there"));
}

}  // namespace lockstep::train
