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
#include <torch/nn/module.h>
#include <torch/optim.h>
#include <torch/types.h>

#include "lockstep/checkpoint.h"
#include "lockstep/strategy.h"
#include "training/checkpoint/shard.h"
#include "training/train/session/session_parts.h"

namespace lockstep::train {

struct CheckpointingOptions {
  Retention retention;
  bool saves = true;  // false: only restores
};

// Saves and restores the state of a training, however the Strategy partitions it.
//
// A save has three phases:
//   save()    on all workers: copies the state, during which training stops, agrees on a directory
//             and starts a thread that writes the part of this worker;
//   (thread)  writes the part; rank 0 then waits for the files of all workers, verifies them and
//             completes the checkpoint with its manifest;
//   settle()  on all workers: waits for the threads and compares the outcome.
// At most one save is in progress. The writing threads call no collectives: those of the training
// run at the same time and must stay in the same order on all workers. Files on the shared file
// system are the only communication between the threads.
//
// Every worker must make the same calls, from the thread that trains.
class Checkpointing {
 public:
  Checkpointing(SessionParts& session,
                torch::nn::Module& model,
                torch::optim::Optimizer& optimizer,
                CheckpointingOptions options);
  // Waits for the save in progress, but only briefly for the parts of other workers.
  ~Checkpointing();
  Checkpointing(const Checkpointing&) = delete;
  Checkpointing& operator=(const Checkpointing&) = delete;

  // Call it before a Strategy adopts the model. Throws an Error on all workers if checkpoints
  // cannot be written, so that this is detected before the first step.
  void prepare();

  // Restores model, optimizer and random number generators from the checkpoint that --resume
  // selects, and returns its state. Returns nothing if training starts from the beginning. Throws
  // an Error on all workers if the checkpoint belongs to another model or does not exist.
  struct Restored {
    CheckpointState state;
    std::filesystem::path directory;
    std::unique_ptr<PieceSource> pieces;
  };
  std::optional<Restored> restore(Strategy& strategy);

  // Copies the part of the state that this worker writes and starts to write it. settle() must have
  // been called for the previous save. `averages` are the averaged weights, if there are any:
  // pieces if the Strategy returns pieces, otherwise all of them on every worker. If rank 0 cannot
  // create the directory, it throws its Error and the other ranks throw one that refers to it.
  void save(const CheckpointState& state,
            const Strategy& strategy,
            const std::vector<TensorPiece>& averages);

  // Whether the part of this worker (on rank 0: the entire checkpoint) is complete, and whether it
  // has failed.
  bool is_done() const { return done_; }
  bool has_failed() const { return done_ && failure_ != nullptr; }

  // Waits until the save is complete and returns its directory. Throws on all workers if it failed
  // on any of them. `failed_elsewhere`: it is already known that another worker has failed, so
  // rank 0 does not wait for its part.
  std::filesystem::path settle(bool failed_elsewhere = false);

  // Of the last settled save: the time at which this worker finished, and the size of the parts of
  // all workers.
  std::chrono::steady_clock::time_point finished() const { return finished_; }
  uint64_t bytes() const { return all_bytes_; }

  // Writes model.pt, ema.pt and best.pt to the run directory from a complete checkpoint, on rank 0.
  void publish_weights(const std::filesystem::path& directory);

 private:
  std::string find_directory() const;
  Restored restore_from(const std::string& directory, Strategy& strategy);
  std::string set_aside_later(const std::filesystem::path& chosen) const;
  void restore_random(const CheckpointState& state, const PieceSource& source) const;
  std::vector<TensorPiece> my_pieces(const Strategy& strategy,
                                     const std::vector<TensorPiece>& averages) const;
  std::vector<TensorPiece> random_pieces() const;
  // Creates the directory on rank 0. Returns its random token, the same on all workers.
  std::string begin_draft(int64_t step);
  void write(const checkpoint::ShardedSave& save);
  void begin_pruning(const std::filesystem::path& root);
  void wait_for_pruning();
  int writers() const;

  SessionParts& session_;
  torch::nn::Module& model_;
  torch::optim::Optimizer& optimizer_;
  CheckpointingOptions options_;
  std::string description_;  // of the optimizer before a Strategy adopted it
  bool is_shared_ = true;    // all workers see the same directory
  bool is_sharded_ = false;  // the Strategy returns pieces
  uint64_t all_bytes_ = 0;
  std::chrono::steady_clock::time_point finished_;
  std::filesystem::path directory_;  // of the save in progress

  checkpoint::Snapshot snapshot_;
  std::unique_ptr<checkpoint::Draft> draft_;
  checkpoint::Patience patience_;
  std::atomic<bool> done_ = true;
  std::exception_ptr failure_;  // written by thread_ before done_, read only after done_
  std::jthread pruning_;        // deletes old checkpoints; started by thread_
  std::jthread thread_;
};

// Seeds the random number generators of this worker. Ranks get different seeds, so that their
// dropout differs.
void seed_worker(const SessionParts& session, uint64_t seed);

}  // namespace lockstep::train
