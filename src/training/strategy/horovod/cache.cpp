// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/cache.h"

#include <algorithm>

namespace lockstep::strategy::horovod {

std::optional<size_t> ResponseCache::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

void ResponseCache::insert(const Signature& tensor) {
  if (capacity_ == 0) {
    return;
  }
  // Slots are below capacity_, which therefore stands for "not found".
  const size_t slot = find(tensor.name).value_or(capacity_);
  if (slot < capacity_) {
    slots_[slot].tensor = tensor;
    touch(slot);
    return;
  }
  const size_t fresh = free_slot();
  slots_[fresh].tensor = tensor;
  by_name_[tensor.name] = fresh;
  touch(fresh);
}

void ResponseCache::erase(size_t slot) {
  if (slots_[slot].tensor) {
    by_name_.erase(slots_[slot].tensor->name);
    slots_[slot].tensor.reset();
  }
}

// The choice depends on the sequence of calls only, so all workers choose the same slot. clock_
// grows with every use: no two tensors have an equal `used`, and the least recently used one is
// unique. After the response cache of Horovod (horovod/common/response_cache.cc).
size_t ResponseCache::free_slot() {
  const auto free =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.tensor; });
  if (free != slots_.end()) {
    return static_cast<size_t>(free - slots_.begin());
  }
  if (slots_.size() < capacity_) {
    slots_.emplace_back();
    return slots_.size() - 1;
  }
  const auto oldest = std::min_element(
      slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.used < b.used; });
  const auto slot = static_cast<size_t>(oldest - slots_.begin());
  erase(slot);
  return slot;
}

}  // namespace lockstep::strategy::horovod
