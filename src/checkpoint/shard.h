// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <torch/torch.h>
#include <vector>

#include "checkpoint/draft.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "lockstep/checkpoint.h"

// A checkpoint that all workers of a gang write together: each its shard and an index of what is in
// it, beside the others; rank 0 makes it one checkpoint when all indexes are there. Nothing here
// talks to other workers but by these files, so that it can run beside training.
namespace lockstep::checkpoint {

// safetensors' word for a type; throws Error (Usage) for one that the format does not have.
std::string dtype_of(torch::ScalarType type);
// The way back; throws Error (Usage), that names the tensor, for one that libtorch does not have.
torch::ScalarType type_of(std::string_view dtype, std::string_view tensor);

// Worker `rank`'s part of pieces that every worker holds: the bytes are cut into `workers` equal
// stretches, within tensors too. The same on every worker.
std::vector<TensorPiece> share_of(const std::vector<TensorPiece>& pieces, int rank, int workers);

// A copy of pieces in memory, in the order in which they lie in a shard. The memory is used again
// for the next one.
class Snapshot {
 public:
  void take(const std::vector<TensorPiece>& pieces);

  uint64_t bytes() const { return header_.size() + bytes_; }  // of the shard
  const std::string& header() const { return header_; }
  std::string_view data() const;
  const TensorTable& table() const { return table_; }  // shards have number 0

 private:
  torch::Tensor buffer_;
  uint64_t bytes_ = 0;
  std::string header_;
  TensorTable table_;
};

// Where a gang saves.
struct GangSave {
  std::filesystem::path root;
  std::filesystem::path partial;  // the draft's
  CheckpointState state;
  int rank = 0;
  int writers = 1;
};

// This worker's part. Where it fails, it leaves an index that says so, for rank 0, and throws.
void write_shard(const GangSave& save, const Snapshot& snapshot);

// How long rank 0 waits for the other workers; any thread may change it meanwhile.
struct Patience {
  std::atomic<int64_t> milliseconds = 300'000;  // since any of them wrote a byte
  std::atomic<bool> give_up = false;            // at once
};

// Rank 0's part: waits for every index, checks that the shards hold everything once, and publishes.
// Returns the checkpoint's directory. Throws Error (Io) that names the rank whose shard is missing
// or failed; then nothing is left.
std::filesystem::path complete(const GangSave& save, Draft& draft, const Patience& patience);

}  // namespace lockstep::checkpoint
