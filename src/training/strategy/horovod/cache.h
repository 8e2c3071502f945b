// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "training/strategy/horovod/message.h"

namespace lockstep::strategy::horovod {

// Tensors that all workers have negotiated before. A slot number stands for name, shape, type and
// operation, so that a later cycle needs no names.
//
// Invariant: the cache is equal on all workers at the beginning of each cycle, although its content
// is never exchanged. Every change is derived from data that all workers have received: the
// combined vote (touch, erase) or the broadcast responses (insert). Eviction depends only on the
// order of these changes, not on time.
class ResponseCache {
 public:
  explicit ResponseCache(int64_t capacity) : capacity_(static_cast<size_t>(capacity)) {}

  // Slots are numbered 0 .. slots()-1. Slots can be free. The number of slots never shrinks.
  size_t slots() const { return slots_.size(); }
  const std::optional<Signature>& at(size_t slot) const { return slots_[slot].tensor; }

  std::optional<size_t> find(const std::string& name) const;

  // Uses the lowest free slot, or evicts the least recently used tensor of a full cache. Counts as
  // a use. A name that is already present keeps its slot. Does nothing if the capacity is 0.
  void insert(const Signature& tensor);

  void touch(size_t slot) { slots_[slot].used = ++clock_; }
  void erase(size_t slot);

 private:
  struct Slot {
    std::optional<Signature> tensor;
    uint64_t used = 0;
  };

  size_t free_slot();

  size_t capacity_;
  uint64_t clock_ = 0;
  std::vector<Slot> slots_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace lockstep::strategy::horovod
