// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/step_sync.h"

#include <utility>

namespace lockstep::train {
namespace {

// The accuracy during training is only displayed: a fraction of the steps is sufficient and keeps
// small models fast.
constexpr int64_t kScoreEvery = 4;

}  // namespace

StepSync::StepSync(const SessionParts& session,
                   const Strategy& strategy,
                   const torch::nn::Module& model,
                   const CheckpointDriver& checkpoints)
    : session_(session),
      strategy_(strategy),
      model_(model),
      checkpoints_(checkpoints),
      exchange_(*session.communicator) {}

// Values stay on the device; exchange() collects them. Scores are counted in every fourth step
// only.
void StepSync::add(const StepOutcome& outcome, int64_t step) {
  gradient_norm_ = outcome.norm ? outcome.norm : gradient_norm_;
  late_norm_ = outcome.late_norm.defined() ? outcome.late_norm : late_norm_;
  if (!outcome.is_applied) {
    return;  // the loss of a skipped step may have overflowed as well
  }
  const bool scores = step % kScoreEvery == 0;
  for (const auto& [loss, share] : outcome.losses) {
    recent_.add(loss.value, share.size());
    loss_watch_.add(loss.value, step + 1);
    if (scores && loss.scores.defined()) {
      recent_.add_scores(loss.scores, share.target);
    }
  }
}

// Everything that only this worker knows enters the exchange here (signal, state of its writing
// thread, its losses); everything that the loop decides comes from the result, which is the same
// everywhere. The sums move from `recent_` to `epoch_` after the exchange.
StepSyncResult StepSync::exchange(int64_t step, bool checks_weights) {
  if (session_.communicator->device()) {
    // Reading a value from the GPU waits for all queued collectives and thus for the other workers,
    // without a record of the rank that is missing. The barrier waits on the host, where a stall
    // warning can name the missing rank.
    session_.communicator->barrier("the status exchange between steps");
  }
  WorkerStatus mine = delayed_status_.take(
      recent_, loss_watch_, std::exchange(late_norm_, torch::Tensor()), checks_weights);
  gradient_norm_ = mine.gradient_norm ? mine.gradient_norm : gradient_norm_;
  mine.stop = session_.find_stop_signal().has_value();
  mine.bad_weights = checks_weights && !are_finite(weights());
  mine.save_done = checkpoints_.is_done();
  mine.save_failed = checkpoints_.has_failed();
  StepSyncResult result = exchange_.run(step, mine);
  result.has_samples = mine.samples > 0;
  checked_step_ = checks_weights ? step : checked_step_;
  is_stop_agreed_ = is_stop_agreed_ || result.stop;
  loss_watch_.reset();
  epoch_.merge(recent_);
  recent_.reset();
  return result;
}

std::optional<double> StepSync::take_gradient_norm() {
  return std::exchange(gradient_norm_, std::nullopt);
}

void StepSync::finish_epoch() {
  epoch_.all_reduce(*session_.communicator);
}

// The tensors that the optimizer updates.
std::vector<torch::Tensor> StepSync::weights() const {
  const std::optional<std::vector<TensorPiece>> pieces = strategy_.updated();
  if (!pieces) {
    return model_.parameters();
  }
  std::vector<torch::Tensor> tensors;
  for (const TensorPiece& piece : *pieces) {
    tensors.push_back(piece.values);
  }
  return tensors;
}

}  // namespace lockstep::train
