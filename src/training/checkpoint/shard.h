// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <torch/types.h>
#include <vector>

#include "lockstep/checkpoint.h"
#include "training/checkpoint/draft.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/safetensors.h"

// A checkpoint that all workers write in parallel: each rank writes a shard and an index of its
// content. Rank 0 completes the checkpoint when all indexes exist. The ranks communicate only
// through these files and call no collectives, so that the code can run on a thread next to
// training.
namespace lockstep::checkpoint {

// The safetensors name of a type; throws Error (Usage) for types that the format does not support.
std::string dtype_of(torch::ScalarType type);
// The inverse; throws Error (Usage) with the name of the tensor if libtorch has no such type.
torch::ScalarType type_of(std::string_view dtype, std::string_view tensor);

// The share of `rank` in pieces that all workers hold identically. The concatenated bytes of all
// pieces are divided into `workers` equal ranges; a range can begin and end within a tensor. All
// workers compute the same division without communication.
std::vector<TensorPiece> share_of(const std::vector<TensorPiece>& pieces, int rank, int workers);

// A copy of the pieces in host memory, in the order of the shard file. Training can change the
// tensors after take(). The buffer is reused for the next snapshot.
class Snapshot {
 public:
  void take(const std::vector<TensorPiece>& pieces);

  uint64_t bytes() const { return header_.size() + bytes_; }  // size of the shard
  const std::string& header() const { return header_; }
  std::string_view data() const;
  const TensorTable& table() const { return table_; }  // all stretches have shard 0

 private:
  torch::Tensor buffer_;
  uint64_t bytes_ = 0;
  std::string header_;
  TensorTable table_;
};

// One save by all workers.
struct ShardedSave {
  std::filesystem::path root;
  std::filesystem::path partial;  // directory of the Draft
  CheckpointState state;
  int rank = 0;
  int writers = 1;
};

// Writes the shard and the index of this rank. On failure, writes an index with the reason, so that
// rank 0 stops waiting, and throws.
void write_shard(const ShardedSave& save, const Snapshot& snapshot);

// Limits of the wait of rank 0 for the other ranks. Any thread can change them during the wait.
struct Patience {
  std::atomic<int64_t> milliseconds = 300'000;  // since the last write by any rank
  std::atomic<bool> give_up = false;            // stop waiting now: a worker has failed
};

// Rank 0 only: waits for all indexes, checks that the shards contain every element exactly once,
// and publishes the checkpoint. Returns its directory. Throws Error (Io) with the rank whose shard
// is missing or failed; the draft then removes everything. complete.cpp explains the order of
// writes.
std::filesystem::path complete(const ShardedSave& save, Draft& draft, const Patience& patience);

}  // namespace lockstep::checkpoint
