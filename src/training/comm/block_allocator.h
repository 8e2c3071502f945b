// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <unordered_map>

namespace lockstep::comm {

// A cache of large memory blocks. A block that is returned stays mapped and is reused for the next
// request of about the same size.
//
// Training requests the same sizes in each step. Without a cache, glibc either returns the pages to
// the kernel, which must then zero them again in each step, or keeps them in a fragmented heap in
// which an aligned block of the same size no longer fits.
//
// Every block is in exactly one of two states:
//
//             take(): mmap, or reuse of a cached block
//   (unmapped) ------------------------------> used (used_, used_bytes_)
//       ^                                        |  ^
//       | make_room(), trim(): munmap     give() |  | take()
//       |                                        v  |
//       +--------------------------------- cached (kept_, by_size_, kept_bytes_)
//
// Invariants, which hold whenever the mutex is free:
//   1. used_bytes_ is the sum of the sizes in used_, and kept_bytes_ the sum of those in kept_.
//   2. by_size_ has exactly one entry per element of kept_, with its size as key. List iterators
//      stay valid while other elements are erased, so by_size_ can store them.
//   3. peak_used_ >= used_bytes_: the maximum of used_bytes_ since construction or trim().
//   4. used_bytes_ + kept_bytes_ <= peak_used_ + peak_used_ / 16. The cache therefore never maps
//      much more memory than training has used simultaneously. A change of sizes, as from training
//      to evaluation, replaces old blocks instead of adding to them.
//
// All methods are thread-safe. One mutex is sufficient because small tensors never get here.
class Blocks {
 public:
  ~Blocks();

  // Returns a block of at least `bytes`, aligned to a page, or null if the machine has no memory
  // left. The content is undefined if the block is reused.
  void* take(size_t bytes);

  // Returns a block to the cache. Returns false, and does nothing, if the block is not from take().
  bool give(void* block);

  // Unmaps all cached blocks and resets the maximum of invariant 3 to the current use.
  void trim();

  size_t mapped_bytes() const;  // used and cached
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
  std::unordered_map<void*, size_t> used_;  // size of each used block
  KeptList kept_;                           // least recently returned first
  std::multimap<size_t, KeptList::iterator> by_size_;
  size_t used_bytes_ = 0;
  size_t kept_bytes_ = 0;
  size_t peak_used_ = 0;
};

// Makes libtorch allocate large CPU tensors from a process-wide Blocks. Tensors that exist already
// keep their memory and are freed by the allocator that created them.
void keep_blocks();

// Returns all cached blocks and the free memory of the C library to the kernel. Call it before a
// phase that needs less memory than the previous one.
void give_back();

}  // namespace lockstep::comm
