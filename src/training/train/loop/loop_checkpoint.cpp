// SPDX-License-Identifier: Apache-2.0
// The checkpoint part of Loop: which state is saved, and how it is restored.
#include <fmt/format.h>

#include "common/base/log.h"
#include "common/base/text.h"
#include "common/os/signals.h"
#include "lockstep/error.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/checkpoint/weights_file.h"
#include "training/train/loop/loop.h"
#include "training/train/session/stopped.h"

namespace lockstep::train {
namespace {

int64_t ema_updates(const std::string& note) {
  const std::optional<int64_t> updates = find_integer(note);
  if (!updates || *updates < 0) {
    throw Error(ExitCode::Io, "cannot resume: invalid update count of the averaged weights")
        .fact("found", fmt::format("ema_updates '{}'", note), "checkpoint")
        .fact("expected", "an integer of at least 0")
        .hint("--resume DIR with an older checkpoint, or omit --ema");
  }
  return *updates;
}

}  // namespace

// Continues an epoch with another global batch. This is possible only if the completed samples are
// a multiple of the new global batch, so that every sample is still used exactly once.
void Loop::change_batch(const CheckpointState& saved) {
  const int64_t done = saved.step_in_epoch * saved.global_batch;
  if (done % options_.global_batch != 0) {
    throw Error(ExitCode::Usage, "cannot change the global batch within an epoch")
        .fact("requested", fmt::format("global batch {}", options_.global_batch))
        .fact("completed",
              fmt::format("{} samples of epoch {}, in steps of {}",
                          done,
                          saved.epoch + 1,
                          saved.global_batch),
              "checkpoint")
        .hint(fmt::format("--global-batch {}, or a divisor of {}", saved.global_batch, done));
  }
  position_.step_in_epoch = done / options_.global_batch;
  if (session_.communicator->rank() == 0) {
    log::warn("the global batch changed from {} to {}: continuing at step {} of the epoch",
              saved.global_batch,
              options_.global_batch,
              position_.step_in_epoch);
  }
}

// The order matters: the seed determines the order of samples, the position refers to that order,
// and the length of the training (total_steps) depends on the position. The averages are recreated
// after the weights were restored.
void Loop::resume() {
  const std::optional<Checkpointing::Restored> restored = checkpoints_.restore(*strategy_);
  if (!restored) {
    return;
  }
  const CheckpointState* saved = &restored->state;
  const bool speaks = session_.communicator->rank() == 0;
  if (saved->seed != options_.seed) {
    if (speaks) {
      log::warn("using seed {} of the checkpoint instead of {} to continue the order of samples",
                saved->seed,
                options_.seed);
    }
    options_.seed = saved->seed;
    feed_.reseed();
  }
  position_.state.step = saved->step;
  position_.state.epoch = saved->epoch;
  position_.step_in_epoch = saved->step_in_epoch;
  if (saved->global_batch != options_.global_batch) {
    change_batch(*saved);
  }
  // After steps of another size, the length of the training is determined by the remaining epochs,
  // not by the number of steps.
  position_.extra_steps = position_.state.step - (position_.state.epoch * feed_.sampler().steps() +
                                                  position_.step_in_epoch);
  if (position_.extra_steps != 0) {
    runner_.schedule().select(position_.total_steps());
  }
  // The restored optimizer has the learning rates of the saved step. The schedule multiplies the
  // base learning rates.
  runner_.schedule().reset();
  const auto note = [&saved](const std::string& name) {
    const auto found = saved->notes.find(name);
    return found == saved->notes.end() ? std::string() : found->second;
  };
  runner_.restore(note("convolution"), note("loss_scale"));
  if (ema_) {
    // The existing averages are those of the initial random weights, from before the restore.
    ema_.emplace(task_.model, *strategy_, options_.ema);
    if (!checkpoint::items_below(*restored->pieces, checkpoint::kEmaPrefix).empty()) {
      ema_->restore(*restored->pieces, ema_updates(note("ema_updates")));
    } else if (speaks) {
      log::warn("the checkpoint has no averaged weights: --ema starts with the trained weights");
    }
  }
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    if (const std::string text = note(fmt::format("callback-{}", i)); !text.empty()) {
      callbacks_[i]->restore(text);
    }
  }
}

// Everything that is not a tensor. Notes are texts by name, so that older versions can ignore new
// ones. Metrics are those of exactly this step, or absent.
CheckpointState Loop::checkpoint_state() const {
  CheckpointState saved{.step = position_.state.step,
                        .epoch = position_.state.epoch,
                        .step_in_epoch = position_.step_in_epoch,
                        .seed = options_.seed,
                        .global_batch = options_.global_batch,
                        .world_size = session_.communicator->size(),
                        .metrics = {},
                        .notes = {{"strategy", std::string(strategy_->name())},
                                  {"schedule", runner_.schedule().text()},
                                  {"convolution", runner_.convolution()}}};
  if (runner_.loss_scaler().is_on()) {
    saved.notes["loss_scale"] = runner_.loss_scaler().state();
  }
  if (ema_) {
    saved.notes["ema_updates"] = std::to_string(ema_->updates());
  }
  if (position_.state.evaluation && position_.evaluated_step == position_.state.step) {
    saved.metrics["test_loss"] = position_.state.evaluation->loss;
    if (position_.state.evaluation->accuracy) {
      saved.metrics["test_accuracy"] = *position_.state.evaluation->accuracy;
    }
    if (position_.state.evaluation->top5) {
      saved.metrics["test_top5"] = *position_.state.evaluation->top5;
    }
  }
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    if (const std::string text = callbacks_[i]->state(); !text.empty()) {
      saved.notes[fmt::format("callback-{}", i)] = text;
    }
  }
  return saved;
}

// The time of the status exchange and of settle() counts as part of the stall, hence the early
// start.
void Loop::save() {
  if (!checkpoints_.is_missing(position_.state.step)) {
    return;
  }
  const auto start = Clock::now();
  // Checks losses and weights first: an unusable checkpoint would displace a good one.
  if (sync_.checked_step() != position_.state.step) {
    exchange_status(true);
  }
  // Before checkpoint_state(), because callbacks may change their state.
  checkpoints_.settle();
  checkpoints_.save(checkpoint_state(),
                    position_.state,
                    *strategy_,
                    ema_ ? ema_->pieces() : std::vector<TensorPiece>{},
                    start);
  runner_.timer().add_checkpoint(Clock::now() - start);
  reporter_.pause(Clock::now() - start);
  runner_.timer().pause();
}

// save() and settle() make the checkpoint complete before the process ends. All workers get here
// after the same step, because is_stop_agreed() is the result of an exchange.
void Loop::stop() {
  save();
  checkpoints_.settle();
  const int signal = session_.find_stop_signal().value_or(SIGTERM);
  throw Stopped(signal,
                fmt::format("stopped at step {} of {}{}",
                            position_.state.step,
                            position_.total_steps(),
                            checkpoints_.last().empty() ? ""
                                                        : ", saved in " + checkpoints_.last() +
                                                              "; continue with --resume auto"));
}

}  // namespace lockstep::train
