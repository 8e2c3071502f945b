// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <unordered_map>
#include <vector>

#include "strategy/exchange.h"
#include "strategy/zero_unit.h"

namespace lockstep::strategy::zero {

// Sees to it that an operator which uses a parameter finds it whole, whichever module or function
// calls it, in forward, in backward and in what is computed again: libtorch tells of each operator
// and its inputs before it runs. Units that are not in use are released again.
//
// All workers run the same operators on parameters in the same order. One thread drives it.
class Residency {
 public:
  // What the parameters are used for: each has an order of its own, which the next time is known
  // ahead.
  enum class Use { Training, Reading };

  // With `gathers_all`, everything is whole from the beginning of a use to its end: workers may use
  // different parameters.
  // All outlive this. The first error is put into `fault`; libtorch lets none through from here.
  Residency(std::vector<Unit*> units,
            Exchange& exchange,
            const ZeroOptions& options,
            bool gathers_all,
            std::exception_ptr& fault);
  ~Residency();

  // While it lives, the operators of this thread, and of the backward that it starts, find whole
  // parameters. At its end everything is released.
  [[nodiscard]] std::shared_ptr<void> enter(Use use);

  // Most elements that were whole at a time so far, of units that do not stay so.
  int64_t most_live() const { return most_live_; }
  int64_t gathers() const { return gathers_; }
  int64_t prefetches() const { return prefetches_; }

 private:
  struct Guest {
    Unit* unit = nullptr;
    Exchange::Future arriving;  // null: arrived, or not asked for
    int pins = 0;               // operators that run with it
    int64_t last_use = 0;
    bool is_awaited = false;  // prefetched, and not used yet
  };
  class Watch;
  class Scope;

  // Units of an operator's inputs.
  std::vector<size_t> find(c10::ArrayRef<const c10::IValue> inputs) const;
  void use(size_t guest);
  void begin_gather(size_t guest);
  void await(Guest& guest);
  void make_room(int64_t elements);
  void follow(size_t guest);
  void prefetch();
  void forget_plan();
  void gather_all();
  void release_all();

  std::vector<Guest> guests_;
  std::unordered_map<const void*, size_t> by_storage_;
  Exchange& exchange_;
  ZeroOptions options_;
  bool gathers_all_;
  std::exception_ptr& fault_;

  std::array<std::vector<size_t>, 2> expected_;  // what each use did last time
  std::vector<size_t> order_;                    // what this one has done so far
  size_t position_ = 0;                          // in expected_
  bool is_as_expected_ = false;
  Use now_ = Use::Training;

  int64_t clock_ = 0;
  int64_t live_ = 0;
  int64_t most_live_ = 0;
  int64_t gathers_ = 0;
  int64_t prefetches_ = 0;
};

}  // namespace lockstep::strategy::zero
