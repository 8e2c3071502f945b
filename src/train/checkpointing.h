// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <torch/torch.h>

#include "lockstep/checkpoint.h"
#include "train/session_parts.h"

namespace lockstep::train {

// Saves and restores a training that all workers hold in full: rank 0 writes, all read. Every
// worker makes the same calls.
class Checkpointing {
 public:
  Checkpointing(SessionParts& session,
                torch::nn::Module& model,
                torch::optim::Optimizer& optimizer,
                Retention retention);

  // The state that --resume names, after model, optimizer and random numbers were set to it; or
  // nothing: training begins at the beginning. Throws an Error, on all workers, for a checkpoint of
  // another model or one that was asked for and is not there.
  struct Restored {
    CheckpointState state;
    NamedTensors averages;  // of the weights, where the checkpoint has them
  };
  std::optional<Restored> restore();

  // `averages` of the weights are saved too if there are any. Returns the directory. If rank 0
  // cannot write it, rank 0 throws its Error, and the others one that says so.
  std::filesystem::path save(const CheckpointState& state, const NamedTensors& averages);

 private:
  std::string find_directory() const;
  void restore_random(const CheckpointReader& reader) const;

  SessionParts& session_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  Retention retention_;
};

// Seeds this worker's random numbers: dropout and the like differ from rank to rank.
void seed_worker(const SessionParts& session, uint64_t seed);

}  // namespace lockstep::train
