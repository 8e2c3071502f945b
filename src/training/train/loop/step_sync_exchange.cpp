// SPDX-License-Identifier: Apache-2.0
//
// The row of one worker in the all-gather, all float64:
//
//   0 loss sum      3 scored           6 bad weights       9 value of the bad loss
//   1 samples       4 stop             7 has a bad loss   10 save done
//   2 correct       5 steps to next    8 its step         11 save failed
//
// An all-gather instead of a sum: the first bad loss must be found together with its rank, and some
// words count from rank 0 only. Steps and counts are exact in float64 up to 2^53.
#include "training/train/loop/step_sync_exchange.h"

#include <algorithm>

namespace lockstep::train {

StepSyncResult StepSyncExchange::run(int64_t step, const WorkerStatus& mine) {
  const int64_t steps = interval_.next(StepSyncInterval::Clock::now(), step);
  const std::optional<BadLoss>& bad = mine.bad_loss;
  // One row per worker. The indices below refer to this order.
  const torch::Tensor words = torch::tensor({mine.loss_sum,
                                             mine.samples,
                                             mine.correct,
                                             mine.scored,
                                             mine.stop ? 1.0 : 0.0,
                                             static_cast<double>(steps),
                                             mine.bad_weights ? 1.0 : 0.0,
                                             bad.has_value() ? 1.0 : 0.0,
                                             static_cast<double>(bad.value_or(BadLoss{}).step),
                                             bad.value_or(BadLoss{}).value,
                                             mine.save_done ? 1.0 : 0.0,
                                             mine.save_failed ? 1.0 : 0.0},
                                            torch::kFloat64);
  const torch::Tensor all = communicator_.all_gather(words);
  const torch::Tensor sums = all.sum(0);
  const auto sum = [&sums](int64_t i) {
    return sums[i].item<double>();
  };
  // From rank 0 alone: the pace, which all must share, and save_done, because only rank 0 completes
  // a checkpoint.
  next_step_ = step + std::max<int64_t>(1, all[0][5].item<int64_t>());
  StepSyncResult result{.stop = sum(4) > 0,
                        .loss = sum(1) > 0 ? sum(0) / sum(1) : 0,
                        .accuracy = sum(3) > 0 ? sum(2) / sum(3) : -1,
                        .bad_loss = std::nullopt,
                        .bad_weights = sum(6) > 0,
                        .save_done = all[0][10].item<double>() > 0,
                        .save_failed = sum(11) > 0};
  // The earliest step wins, and among equal steps the lowest rank: the same choice on every worker.
  for (int rank = 0; rank < communicator_.size(); ++rank) {
    const auto word = [&all, rank](int64_t i) {
      return all[rank][i].item<double>();
    };
    const auto bad_step = static_cast<int64_t>(word(8));
    if (word(7) > 0 && (!result.bad_loss || bad_step < result.bad_loss->step)) {
      result.bad_loss = BadLoss{.step = bad_step, .value = word(9)};
      result.bad_rank = rank;
    }
  }
  return result;
}

}  // namespace lockstep::train
