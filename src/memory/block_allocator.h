// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

namespace lockstep::memory {

// Large pieces of memory that are kept when they are given back, and given out again. Training asks
// for the same sizes in each step; the C library zeroes their pages anew each time, or keeps them
// in a heap with holes that an aligned piece of the same size does not fit into.
//
// What is mapped is never much more than the most that was in use at a time. Any thread may call.
class Blocks {
 public:
  ~Blocks();

  // At least `bytes`, aligned to a page; null where the machine has no more.
  void* take(size_t bytes);

  // False: not one of these.
  bool give(void* block);

  // Unmaps what is kept, and forgets how much was in use.
  void trim();

  size_t mapped_bytes() const;
  size_t used_bytes() const;

 private:
  struct Kept {
    void* block;
    size_t bytes;
  };
  using KeptList = std::list<Kept>;

  void* find_kept(size_t bytes);
  void make_room(size_t bytes);
  void drop(std::multimap<size_t, KeptList::iterator>::iterator kept);

  mutable std::mutex mutex_;
  std::unordered_map<void*, size_t> used_;
  KeptList kept_;  // the one that came back longest ago first
  std::multimap<size_t, KeptList::iterator> by_size_;
  size_t used_bytes_ = 0;
  size_t kept_bytes_ = 0;
  size_t most_used_ = 0;
};

// From here on libtorch's large tensors on the CPU are made of Blocks.
void keep_blocks();

// Gives back what is free of them, and of the C library's memory, before a time in which less is
// needed than so far.
void give_back();

}  // namespace lockstep::memory
