// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "comm/call_signature.h"
#include "os/peer_watch.h"
#include "os/shared_memory.h"

namespace lockstep::comm {

// Where the workers of one machine lay out what they have for each other: a piece of shared memory
// in which each of them has slots, used in turn for one chunk after the other, and a word on how
// far it has come. Knows no collective.
//
// Every chunk bears the call that it belongs to, and a worker that finds another call than its own
// throws an Error that says what each of them does. A lost peer is an Error with
// ExitCode::TryAgain.
class SharedBoard {
 public:
  static constexpr int kMostWorkers = 256;

  // Of the memory for so many workers.
  static size_t needed_bytes(int size);

  // Tells the others which processors this worker may use; each does so before all have met.
  static void announce_processors(const os::SharedMemory& memory);

  // `peers`: all but this worker, in the order of ranks.
  SharedBoard(int rank,
              int size,
              os::SharedMemory memory,
              os::PeerWatch peers,
              std::chrono::milliseconds timeout);
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;
  ~SharedBoard();

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // What a slot holds.
  size_t chunk_bytes() const { return chunk_bytes_; }

  // The chunks from now on belong to this call.
  void begin_call(const CallSignature& call);

  // The newest chunk so far; they are numbered alike on all workers.
  uint64_t last_chunk() const { return last_; }

  // Begins the next chunk, when all have finished with what lies in its slot.
  uint64_t open_chunk();

  // Shows this worker's slot to the others.
  void lay_out(uint64_t chunk);

  // Returns when `peer` has laid out this chunk, of the same call as ours.
  void await(int peer, uint64_t chunk);

  // This worker has reduced its part of the chunk; and returns when `peer` has.
  void mark_reduced(uint64_t chunk);
  void await_reduced(int peer, uint64_t chunk) const;

  // Nobody has looked at what the others do in the newest chunk; the next one will.
  void check_later() { unchecked_ = last_; }

  std::byte* slot(int peer, uint64_t chunk) const {
    const size_t index = chunk % kSlots * static_cast<size_t>(size_) + static_cast<size_t>(peer);
    return slots_ + index * chunk_bytes_;
  }

 private:
  // A worker that has laid out chunk c has finished with chunk c - 3: it lays out one, reduces the
  // one before and collects the one before that.
  static constexpr uint64_t kSlots = 4;
  static constexpr uint64_t kAhead = 3;

  // How far a worker has come: the number of the chunk that it has laid out, with the call that it
  // belongs to, and of the chunk whose part it has reduced. A cache line each, so that waiting on
  // one disturbs no other.
  struct alignas(64) Progress {
    std::atomic<uint64_t> laid_out;
    std::array<std::atomic<uint64_t>, kSlots> signature;  // by the number of the chunk
    std::atomic<uint32_t> has_left;
    alignas(64) std::atomic<uint64_t> reduced;
  };
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  static_assert(sizeof(Progress) == 128);

  static size_t head_bytes(int size);

  void check(int peer, uint64_t chunk) const;
  [[noreturn]] void throw_different_calls(uint64_t chunk) const;
  void wait_for(const std::atomic<uint64_t>& number, uint64_t least, int peer) const;
  void wait_long_for(const std::atomic<uint64_t>& number, uint64_t least, int peer) const;
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
  uint64_t unchecked_ = 0;       // a chunk whose call nobody has compared yet; 0: none
  uint64_t next_signature_ = 0;  // of this call
  uint64_t signature_ = 0;       // of the newest chunk's call
  bool is_first_chunk_ = false;
};

}  // namespace lockstep::comm
