// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <exception>
#include <memory>
#include <unordered_map>
#include <vector>

#include "training/strategy/shared/exchange.h"
#include "training/strategy/zero/flat_parameter.h"

namespace lockstep::strategy::zero {

// Gathers partitioned parameters (ZeRO stage 3) just before an operator uses them, and releases
// them afterwards. Works with every module and function, in forward, in backward and in recomputed
// activations: libtorch calls RecordFunction callbacks before and after each operator, with its
// inputs. Modules are not changed and need no wrapper.
//
// States of an entry, which is one flat parameter:
//
//   released --begin_gather()--> arriving --await()--> whole --make_room(), release_all()--> ...
//
// - An entry is recognized by the StorageImpl of its flat parameter. It stays the same when the
//   memory is released, so parameters, views and tensors that autograd has saved are valid again
//   after the next gather.
// - An entry must not be released while an operator uses it (pins > 0), while its gather is in
//   progress (arriving), or while it is prefetched and not yet used (is_prefetched).
// - Elements of whole and arriving entries are counted in live_. make_room() releases the least
//   recently used entries until the next one fits into max_live_elements. If nothing can be
//   released, the limit is exceeded: correctness comes first.
//
// Each gather is a collective. All workers must therefore run the same operators on parameters in
// the same order; every decision below depends only on this order. The order of each Use is
// recorded and serves as the plan of the next one: as long as the operators follow the plan, the
// flat parameters of the next operators are gathered ahead. At the first deviation the plan is
// dropped until the next enter().
//
// One thread at a time drives it: the caller waits while backward runs on threads of autograd.
class ParameterCache {
 public:
  // Purpose of a pass. Each has its own recorded order.
  enum class Use { Training, Reading };

  // With `gathers_all`, all flat parameters are whole from the beginning of a use to its end:
  // workers may then use different parameters. All arguments must outlive this. The first error is
  // stored in `fault`, because libtorch lets no exception out of a callback.
  ParameterCache(std::vector<FlatParameter*> flat_parameters,
                 Exchange& exchange,
                 const ZeroOptions& options,
                 bool gathers_all,
                 std::exception_ptr& fault);
  ~ParameterCache();

  // During the lifetime of the result, operators of this thread and of the backward that it starts
  // find whole parameters. At its end everything is released.
  [[nodiscard]] std::shared_ptr<void> enter(Use use);

 private:
  struct Entry {
    FlatParameter* flat = nullptr;
    Exchange::Future arriving;  // null: complete, or not started
    int pins = 0;               // running operators that use it
    int64_t last_use = 0;
    bool is_prefetched = false;  // prefetched and not yet used: must not be released
  };
  class Observer;
  class Scope;

  // The flat parameters among the inputs of an operator, each once.
  std::vector<size_t> find(c10::ArrayRef<const c10::IValue> inputs) const;
  void use(size_t index);
  void begin_gather(size_t index);
  void await(Entry& entry);
  void make_room(int64_t elements);
  void follow(size_t index);
  void prefetch();
  void forget_plan();
  void gather_all();
  void release_all();

  std::vector<Entry> entries_;
  std::unordered_map<const void*, size_t> by_storage_;
  Exchange& exchange_;
  ZeroOptions options_;
  bool gathers_all_;
  std::exception_ptr& fault_;

  std::array<std::vector<size_t>, 2> expected_;  // order of the last pass, by Use
  std::vector<size_t> order_;                    // order of this pass so far
  size_t position_ = 0;                          // next index in expected_
  bool is_as_expected_ = false;
  Use now_ = Use::Training;

  int64_t clock_ = 0;
  int64_t live_ = 0;
};

}  // namespace lockstep::strategy::zero
