// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <torch/torch.h>

#include "checkpoint/shard.h"
#include "lockstep/checkpoint.h"
#include "lockstep/strategy.h"
#include "train/session_parts.h"

namespace lockstep::train {

struct CheckpointingOptions {
  Retention retention;
  bool saves = true;  // false: only restores
};

// Saves and restores a training, whatever the Strategy keeps where: every worker writes its part
// beside training, at most one save at a time. Every worker makes the same calls; the thread that
// writes talks to nobody.
class Checkpointing {
 public:
  Checkpointing(SessionParts& session,
                torch::nn::Module& model,
                torch::optim::Optimizer& optimizer,
                CheckpointingOptions options);
  // Waits for the save in flight, but not for workers that are gone.
  ~Checkpointing();
  Checkpointing(const Checkpointing&) = delete;
  Checkpointing& operator=(const Checkpointing&) = delete;

  // Before a Strategy takes the model: throws an Error, on all workers, where checkpoints could not
  // be written, so that this is known before the first step.
  void prepare();

  // The state that --resume names, after model, optimizer and random numbers were set to it; or
  // nothing: training begins at the beginning. Throws an Error, on all workers, for a checkpoint of
  // another model or one that was asked for and is not there.
  struct Restored {
    CheckpointState state;
    std::filesystem::path directory;
    std::unique_ptr<PieceSource> pieces;
  };
  std::optional<Restored> restore(Strategy& strategy);

  // Copies what this worker has to write, and begins to write it; settle() must have been called
  // for the save before. `averages` of the weights are saved too if there are any: pieces where the
  // Strategy gives pieces, else all of them on every worker. Where rank 0 cannot begin, rank 0
  // throws its Error, and the others one that says so.
  void save(const CheckpointState& state,
            const Strategy& strategy,
            const std::vector<TensorPiece>& averages);

  // Whether this worker's part of the save is done, for rank 0 the whole checkpoint; and whether it
  // failed.
  bool is_done() const { return done_; }
  bool has_failed() const { return done_ && failure_ != nullptr; }

  // Waits until the save is complete; returns its directory. Throws on all workers where it failed
  // on any. `failed_elsewhere`: somebody knows already that it has.
  std::filesystem::path settle(bool failed_elsewhere = false);

  // Of the last save, when it is settled: when this worker was done with it, and its bytes over all
  // workers.
  std::chrono::steady_clock::time_point finished() const { return finished_; }
  uint64_t bytes() const { return all_bytes_; }

  // Weights for people, on rank 0, from a complete checkpoint: model.pt, ema.pt and best.pt in the
  // run directory.
  void publish_weights(const std::filesystem::path& directory);

 private:
  std::string find_directory() const;
  Restored restore_from(const std::string& directory, Strategy& strategy);
  std::string set_aside_later(const std::filesystem::path& chosen) const;
  void restore_random(const CheckpointState& state, const PieceSource& source) const;
  std::vector<TensorPiece> my_pieces(const Strategy& strategy,
                                     const std::vector<TensorPiece>& averages) const;
  std::vector<TensorPiece> random_pieces() const;
  // Makes the directory, on rank 0; returns its token, the same on all workers.
  std::string begin_draft(int64_t step);
  void write(const checkpoint::GangSave& save);
  void begin_pruning(const std::filesystem::path& root);
  void wait_for_pruning();
  int writers() const;

  SessionParts& session_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  CheckpointingOptions options_;
  std::string description_;  // of the optimizer, as it was before a Strategy took it
  bool is_shared_ = true;    // all workers see the same directory
  bool is_sharded_ = false;  // the Strategy gives pieces
  uint64_t all_bytes_ = 0;
  std::chrono::steady_clock::time_point finished_;
  std::filesystem::path directory_;  // of the save in flight

  checkpoint::Snapshot snapshot_;
  std::unique_ptr<checkpoint::Draft> draft_;
  checkpoint::Patience patience_;
  std::atomic<bool> done_ = true;
  std::exception_ptr failure_;  // read when done_
  std::jthread pruning_;        // deletes what is no longer kept; begun by thread_
  std::jthread thread_;
};

// Seeds this worker's random numbers: dropout and the like differ from rank to rank.
void seed_worker(const SessionParts& session, uint64_t seed);

}  // namespace lockstep::train
