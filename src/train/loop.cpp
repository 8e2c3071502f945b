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

SamplerOptions sampler_options(const SessionParts& session,
                               const TrainerOptions& options,
                               const DatasetPtr& train) {
  return {.dataset_size = train->size(),
          .global_batch = options.global_batch,
          .rank = session.communicator->rank(),
          .world_size = session.communicator->size(),
          .tail = options.tail,
          .seed = options.seed};
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
      base_rates_(learning_rates(task_.optimizer)) {
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
  const StopRequest::Patience patience(session_.stop);
  task_.model.to(session_.device);
  task_.model.train();
  seed_worker(session_, options_.seed);
  strategy_->adopt(task_.model, task_.optimizer);
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
                     .stopped_early = stopped_early_};
  if (state_.evaluation) {
    result.test_loss = state_.evaluation->loss;
    result.test_accuracy = state_.evaluation->accuracy;
  }
  return result;
}

void Loop::resume() {
  const std::optional<CheckpointState> saved = checkpointing_.restore();
  if (!saved) {
    return;
  }
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
      "global batch {} = {} per worker x {}{}; {} steps per epoch, {} "
      "samples {}; learning rate {:.4g}, {}",
      options_.global_batch,
      options_.global_batch % comm.size() == 0
          ? std::to_string(options_.global_batch / comm.size())
          : fmt::format("about {}", options_.global_batch / comm.size()),
      comm.size(),
      options_.accumulate == 1 ? "" : fmt::format(", in {} micro-batches", options_.accumulate),
      sampler_.steps(),
      options_.tail == Tail::Drop ? task_.train->size() - sampler_.steps() * options_.global_batch
                                  : sampler_.steps() * options_.global_batch - task_.train->size(),
      options_.tail == Tail::Drop ? "dropped" : "padded",
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
    const std::optional<Batch> batch = loader.next();
    if (!batch) {
      break;
    }
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
  const bool scores = state_.step % kScoreEvery == 0;
  for (int64_t part = 0; part < options_.accumulate; ++part) {
    const int64_t begin = batch.size() * part / options_.accumulate;
    const int64_t end = batch.size() * (part + 1) / options_.accumulate;
    const Batch share = options_.accumulate == 1 ? batch : batch.slice(begin, end);
    const Loss result =
        strategy_->accumulate(task_.loss,
                              share,
                              {.weight = static_cast<double>(share.size()) * workers / all,
                               .last = part + 1 == options_.accumulate});
    lately_.add(result.value, share.size());
    if (scores && result.scores.defined()) {
      lately_.add_scores(result.scores, share.target);
    }
  }
  strategy_->step({.clip_norm = options_.clip_norm});
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
    talk();
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

void Loop::talk() {
  const Tally mine{.loss_sum = lately_.loss() * static_cast<double>(lately_.samples()),
                   .samples = static_cast<double>(lately_.samples()),
                   .correct = lately_.correct(),
                   .scored = static_cast<double>(lately_.scored()),
                   .stop = session_.find_stop_signal().has_value()};
  const Agreed news = agreement_.talk(state_.step, mine);
  epoch_.merge(lately_);
  lately_.reset();
  stop_agreed_ = news.stop;
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
  evaluation_step_ = state_.step;
  state_.evaluation =
      evaluate(session_, task_.model, task_.test, task_.loss, options_.evaluation_batch);
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
  checkpoint_step_ = state_.step;
  last_checkpoint_ = checkpointing_.save(checkpoint_state()).string();
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
