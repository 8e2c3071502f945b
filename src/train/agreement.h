// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/communicator.h"
#include "train/loss_watch.h"
#include "train/talk_pace.h"

namespace lockstep::train {

// What the gang knows after it has talked.
struct Agreed {
  bool stop = false;                // some worker was asked to end
  double loss = 0;                  // mean over the gang's samples since the last talk
  double accuracy = -1;             // the same; negative: nothing was scored
  std::optional<BadLoss> bad_loss;  // the first since the last talk
  int bad_rank = 0;                 // who had it; of several at one step the lowest
  bool bad_weights = false;         // on some worker
  bool save_done = false;           // rank 0 has completed the checkpoint
  bool save_failed = false;         // some worker could not write its part
};

// What a worker brings.
struct Tally {
  double loss_sum = 0;
  double samples = 0;
  double correct = 0;
  double scored = 0;
  std::optional<double> gradient_norm = {};  // all have the same, and do not talk of it
  bool stop = false;
  std::optional<BadLoss> bad_loss = {};
  bool bad_weights = false;
  bool save_done = false;
  bool save_failed = false;
};

// The gang talks now and then: often enough to stop within a second and to show news, seldom enough
// to cost nothing. All workers talk after the same step, because rank 0 sets the next one.
class Agreement {
 public:
  explicit Agreement(Communicator& communicator) : communicator_(communicator) {}

  // Whether the workers talk after `step`; the first time at once.
  bool is_due(int64_t step) const { return step >= next_step_; }

  Agreed talk(int64_t step, const Tally& mine);

 private:
  Communicator& communicator_;
  int64_t next_step_ = 0;
  TalkPace pace_;
};

}  // namespace lockstep::train
