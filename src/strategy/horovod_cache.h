// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "strategy/horovod_message.h"

namespace lockstep::strategy::horovod {

// The tensors that all workers know of each other: a place number stands for a name, shape and
// operation. All workers change it in the same order, so it is the same on all without a word.
class ResponseCache {
 public:
  explicit ResponseCache(int64_t capacity) : capacity_(static_cast<size_t>(capacity)) {}

  // Places are 0 .. places()-1; some may be free.
  size_t places() const { return slots_.size(); }
  const std::optional<Signature>& at(size_t place) const { return slots_[place].tensor; }

  std::optional<size_t> find(const std::string& name) const;

  // Takes the lowest free place; of a full cache the place of the one whose use is longest ago.
  // Used counts as now. Does nothing when the capacity is 0.
  void insert(const Signature& tensor);

  void touch(size_t place) { slots_[place].used = ++clock_; }
  void erase(size_t place);

 private:
  struct Slot {
    std::optional<Signature> tensor;
    uint64_t used = 0;
  };

  size_t free_place();

  size_t capacity_;
  uint64_t clock_ = 0;
  std::vector<Slot> slots_;
  std::map<std::string, size_t, std::less<>> places_;
};

}  // namespace lockstep::strategy::horovod
