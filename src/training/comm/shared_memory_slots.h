// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/os/peer_watch.h"
#include "common/os/shared_memory.h"
#include "training/comm/call_signature.h"

namespace lockstep::comm {

// Chunked exchange between the workers of one machine through a segment of shared memory. The
// collectives are built on it in shared_collectives.cpp.
//
// Layout of the segment, for W workers:
//
//   +------------+-----------------------+---------+------------------------------------------+
//   | Processors | Progress x W          | padding | slots                                    |
//   | 128 bytes  | 128 bytes each        | to 4096 | kSlots x W x chunk_bytes                 |
//   +------------+-----------------------+---------+------------------------------------------+
//   slot(w, c) = slots + ((c % kSlots) * W + w) * chunk_bytes
//
// Data moves in chunks. Chunks are numbered from 1, and equal numbers on all workers belong to the
// same part of the same call. Chunk c of worker w is stored in slot(w, c), so a slot is reused
// every kSlots chunks.
//
// Who may write, and when:
// - Worker w alone writes Progress[w] and its slots. Every other worker only reads them. The
//   exception is Processors, a set that all workers extend with atomic operations before they
//   barrier.
// - Worker w writes slot(w, c) between open_chunk(), which returns c, and publish(c). open_chunk()
//   waits until no worker still reads chunk c - kSlots from this slot.
// - After publish(c), worker w may still write a part of slot(w, c) that no other worker reads
//   before mark_reduced(c). The all-reduce in parts stores its sums there.
//
// Memory ordering: publish() and mark_reduced() publish the data with a release store of the chunk
// number; await() and await_reduced() read this number with an acquire load. A reader that sees
// number >= c therefore sees the content of slot(w, c). The opposite direction, reads of a slot
// before its reuse, is ordered in the same way: a peer publishes chunk c - 1 only after it has
// finished reading chunk c - 4 (kAhead).
//
// Every chunk carries the packed signature of its call. A worker that finds a signature other than
// its own throws an Error that shows the call of each worker. A lost peer is an Error with
// ExitCode::TryAgain.
class SharedMemorySlots {
 public:
  static constexpr int kMaxWorkers = 256;

  // Size of the segment for `size` workers.
  static size_t needed_bytes(int size);

  // Adds the processors that this worker may use to the shared set. Every worker must do so before
  // any worker constructs its slots, because the constructor counts the set.
  static void announce_processors(const os::SharedMemory& memory);

  // `peers`: all workers except this one, in the order of ranks.
  SharedMemorySlots(int rank,
                    int size,
                    os::SharedMemory memory,
                    os::PeerWatch peers,
                    std::chrono::milliseconds timeout);
  SharedMemorySlots(const SharedMemorySlots&) = delete;
  SharedMemorySlots& operator=(const SharedMemorySlots&) = delete;
  ~SharedMemorySlots();

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // Capacity of a slot.
  size_t chunk_bytes() const { return chunk_bytes_; }

  // Starts a call: the following chunks carry its signature.
  void begin_call(const CallSignature& call);

  // Number of the newest chunk; equal on all workers at the same point of the program.
  uint64_t last_chunk() const { return last_; }

  // Opens the next chunk. Blocks until all workers have finished with the previous content of its
  // slots.
  uint64_t open_chunk();

  // Publishes the slot of this worker. Its content must be complete.
  void publish(uint64_t chunk);

  // Blocks until `peer` has published this chunk, and checks that it belongs to the same call.
  void await(int peer, uint64_t chunk);

  // Publishes that this worker has reduced its part of the chunk, and blocks until `peer` has done
  // the same.
  void mark_reduced(uint64_t chunk);
  void await_reduced(int peer, uint64_t chunk) const;

  // Defers the signature check of the newest chunk to the next open_chunk(). For calls that do not
  // wait for every peer, such as a broadcast.
  void check_later() { unchecked_ = last_; }

  std::byte* slot(int peer, uint64_t chunk) const {
    const size_t index = chunk % kSlots * static_cast<size_t>(size_) + static_cast<size_t>(peer);
    return slots_ + index * chunk_bytes_;
  }

 private:
  // A worker that has published chunk c has finished with chunk c - 3: the deepest pipeline, the
  // all-reduce in parts, publishes one chunk, reduces the one before and collects the one before
  // that. Before a worker writes chunk n, which reuses the slot of chunk n - kSlots, it waits until
  // all workers have published chunk n - kSlots + kAhead. kSlots must therefore be larger than
  // kAhead: otherwise a worker would wait for a chunk that it has not written itself.
  static constexpr uint64_t kSlots = 4;
  static constexpr uint64_t kAhead = 3;

  // Progress of one worker; only this worker writes it. published and reduced are in different
  // cache lines, so that spinning on one does not slow down stores to the other.
  //
  //   byte 0    published      number of the newest published chunk
  //        8    signature[4]  packed signature of chunk c at index c % kSlots
  //        40   has_left      1: the worker has ended normally and makes no further call
  //        64   reduced       number of the newest chunk whose part is reduced
  struct alignas(64) Progress {
    std::atomic<uint64_t> published;
    std::array<std::atomic<uint64_t>, kSlots> signature;  // index: chunk % kSlots
    std::atomic<uint32_t> has_left;
    alignas(64) std::atomic<uint64_t> reduced;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  static_assert(sizeof(Progress) == 128);
  static_assert(kSlots > kAhead);

  static size_t head_bytes(int size);

  void check(int peer, uint64_t chunk) const;
  [[noreturn]] void throw_different_calls(uint64_t chunk) const;
  void wait_for(const std::atomic<uint64_t>& number, uint64_t minimum, int peer) const;
  void wait_long_for(const std::atomic<uint64_t>& number, uint64_t minimum, int peer) const;
  std::string call_name() const;

  int rank_;
  int size_;
  size_t chunk_bytes_;
  os::SharedMemory memory_;
  os::PeerWatch peers_;
  std::chrono::milliseconds timeout_;
  Progress* progress_;
  std::byte* slots_;
  int spins_ = 0;
  uint64_t last_ = 0;
  uint64_t unchecked_ = 0;       // chunk with a deferred signature check; 0: none
  uint64_t next_signature_ = 0;  // signature of the current call
  uint64_t signature_ = 0;       // signature of the call of the newest chunk
  bool is_first_chunk_ = false;
};

}  // namespace lockstep::comm
