// SPDX-License-Identifier: Apache-2.0
#include "training/comm/block_allocator.h"

#include <algorithm>
#include <c10/core/CPUAllocator.h>
#include <cstring>

#include "common/base/check.h"
#include "common/os/memory.h"

namespace lockstep::comm {
namespace {

// Smaller requests are left to the C library.
constexpr size_t kMinBlockBytes = size_t{1} << 20;

// Sizes are rounded up to a multiple of this, so that requests which differ by a few elements share
// blocks.
constexpr size_t kGrain = size_t{1} << 18;

// Never destroyed: tensors with static lifetime return their blocks after the end of main.
Blocks& blocks() {
  static auto* const all = new Blocks;
  return *all;
}

// The deleter of all tensors of BlockAllocator. A block that Blocks does not know came from the
// default allocator: it was too small, or mmap had failed.
void give_back_one(void* block) {
  if (block != nullptr && !blocks().give(block)) {
    c10::GetDefaultCPUAllocator()->raw_deallocate(block);
  }
}

// Replaces libtorch's CPU allocator. libtorch changed allocate() from const to non-const, and only
// some versions declare copy_data(). The class therefore defines all three without `override`; in
// each version, those that the base class declares override it.
class BlockAllocator final : public c10::Allocator {
 public:
  at::DataPtr allocate(size_t bytes) const { return make(bytes); }
  at::DataPtr allocate(size_t bytes) { return make(bytes); }
  at::DeleterFnPtr raw_deleter() const override { return &give_back_one; }
  void copy_data(void* to, const void* from, size_t bytes) const { std::memcpy(to, from, bytes); }

 private:
  static at::DataPtr make(size_t bytes) {
    void* block = bytes < kMinBlockBytes ? nullptr : blocks().take(bytes);
    if (block == nullptr) {
      // Also after a failure of mmap: the default allocator throws libtorch's usual message.
      block = c10::GetDefaultCPUAllocator()->raw_allocate(bytes);
    }
    // Data and context must be the same pointer: Allocator::raw_allocate() requires it.
    return {block, block, &give_back_one, c10::DeviceType::CPU};
  }
};

}  // namespace

Blocks::~Blocks() {
  trim();
}

void* Blocks::take(size_t bytes) {
  const size_t wanted = (bytes + kGrain - 1) / kGrain * kGrain;
  const std::lock_guard lock(mutex_);
  if (void* block = find_kept(wanted)) {
    return block;
  }
  // Before mmap, not after it, so that the limit of invariant 4 holds for the peak as well.
  make_room(wanted);
  void* block = os::map_memory(wanted);
  if (block != nullptr) {
    used_[block] = wanted;
    used_bytes_ += wanted;
    peak_used_ = std::max(peak_used_, used_bytes_);
  }
  LOCKSTEP_CHECK(used_bytes_ + kept_bytes_ <= peak_used_ + peak_used_ / 16);  // invariant 4
  LOCKSTEP_CHECK(by_size_.size() == kept_.size());                            // invariant 2
  return block;
}

// Best fit: the smallest cached block that is large enough, if it is at most 1/8 larger. A looser
// limit would hand large blocks to small requests and map new ones for the large requests.
void* Blocks::find_kept(size_t bytes) {
  const auto found = by_size_.lower_bound(bytes);
  if (found == by_size_.end() || found->first > bytes + bytes / 8) {
    return nullptr;
  }
  const Kept kept = *found->second;
  kept_.erase(found->second);
  by_size_.erase(found);
  kept_bytes_ -= kept.bytes;
  used_[kept.block] = kept.bytes;
  used_bytes_ += kept.bytes;
  peak_used_ = std::max(peak_used_, used_bytes_);
  return kept.block;
}

bool Blocks::give(void* block) {
  const std::lock_guard lock(mutex_);
  const auto found = used_.find(block);
  if (found == used_.end()) {
    return false;
  }
  const size_t bytes = found->second;
  used_.erase(found);
  used_bytes_ -= bytes;
  kept_.push_back({.block = block, .bytes = bytes});
  by_size_.emplace(bytes, std::prev(kept_.end()));
  kept_bytes_ += bytes;
  return true;
}

// Unmaps the least recently returned blocks until `bytes` more can be mapped within the limit of
// invariant 4. The new request counts towards the maximum because it will be in use. The margin of
// 1/16 avoids that blocks whose sizes differ slightly from step to step displace each other.
void Blocks::make_room(size_t bytes) {
  const size_t peak = std::max(peak_used_, used_bytes_ + bytes);
  while (!kept_.empty() && used_bytes_ + kept_bytes_ + bytes > peak + peak / 16) {
    // by_size_ can contain several blocks of this size; drop() needs the entry of this one.
    const auto [first, last] = by_size_.equal_range(kept_.front().bytes);
    drop(std::find_if(
        first, last, [this](const auto& each) { return each.second == kept_.begin(); }));
  }
}

void Blocks::drop(std::multimap<size_t, KeptList::iterator>::iterator kept) {
  const Kept gone = *kept->second;
  os::unmap_memory(gone.block, gone.bytes);
  kept_bytes_ -= gone.bytes;
  kept_.erase(kept->second);
  by_size_.erase(kept);
}

void Blocks::trim() {
  const std::lock_guard lock(mutex_);
  while (!by_size_.empty()) {
    drop(by_size_.begin());
  }
  peak_used_ = used_bytes_;  // a later, smaller phase must not inherit the limit of this one
}

size_t Blocks::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_ + kept_bytes_;
}

size_t Blocks::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

void keep_blocks() {
  static BlockAllocator allocator;
  // libtorch keeps the allocator with the highest priority; the default is 0.
  c10::SetCPUAllocator(&allocator, /*priority=*/1);
}

void give_back() {
  blocks().trim();
  os::give_back_freed_memory();
}

}  // namespace lockstep::comm
