// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/parameter_cache.h"

#include <ATen/record_function.h>
#include <algorithm>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <optional>

#include "common/base/check.h"

namespace lockstep::strategy::zero {
namespace {

// libtorch has a fixed list of kinds. This one is for its own tests, so no training uses it. It is
// not a constant expression in libtorch 2.14.
c10::DebugInfoKind observer_kind() {
  return c10::DebugInfoKind::TEST_INFO;
}

template <typename Visit>
void visit_tensors(const c10::IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList() || value.isList()) {
    for (const c10::IValue& each : value.toListRef()) {
      visit_tensors(each, visit);
    }
  }
}

}  // namespace

// Thread-local entry through which the callbacks find the ParameterCache. Autograd copies it, like
// the callbacks, to its own threads.
class ParameterCache::Observer : public c10::DebugInfoBase {
 public:
  explicit Observer(ParameterCache& cache) : cache_(cache) {}

  // A running operator, with the flat parameters that must not be released meanwhile.
  struct Running : at::ObserverContext {
    ParameterCache* cache = nullptr;
    std::vector<size_t> entries;
  };

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
    auto* observer = dynamic_cast<Observer*>(c10::ThreadLocalDebugInfo::get(observer_kind()));
    if (observer == nullptr) {
      return nullptr;
    }
    ParameterCache& cache = observer->cache_;
    std::vector<size_t> found = cache.find(function.inputs());
    if (found.empty()) {
      return nullptr;
    }
    // Operators of the gather itself must not trigger the callbacks.
    const at::RecordFunctionGuard quiet(false);
    // All flat parameters are pinned before the first is gathered: making room for one must not
    // release another one of the same operator.
    for (const size_t index : found) {
      ++cache.entries_[index].pins;
    }
    for (const size_t index : found) {
      cache.use(index);
    }
    auto running = std::make_unique<Running>();
    running->cache = &cache;
    running->entries = std::move(found);
    return running;
  }

  static void after(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
    if (auto* running = dynamic_cast<Running*>(context)) {
      for (const size_t index : running->entries) {
        --running->cache->entries_[index].pins;
      }
    }
  }

 private:
  ParameterCache& cache_;
};

class ParameterCache::Scope {
 public:
  explicit Scope(ParameterCache& cache)
      : cache_(cache),
        info_(observer_kind(), std::make_shared<Observer>(cache)),
        handle_(at::addThreadLocalCallback(
            at::RecordFunctionCallback(&Observer::before, &Observer::after)
                .needsInputs(true)
                .scopes({at::RecordScope::FUNCTION}))) {}
  ~Scope() {
    at::removeCallback(handle_);
    cache_.release_all();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  ParameterCache& cache_;
  c10::DebugInfoGuard info_;
  at::CallbackHandle handle_;
};

ParameterCache::ParameterCache(std::vector<FlatParameter*> flat_parameters,
                               Exchange& exchange,
                               const ZeroOptions& options,
                               bool gathers_all,
                               std::exception_ptr& fault)
    : exchange_(exchange), options_(options), gathers_all_(gathers_all), fault_(fault) {
  for (FlatParameter* flat : flat_parameters) {
    by_storage_[flat->storage()] = entries_.size();
    entries_.push_back({.flat = flat, .arriving = {}});
  }
}

ParameterCache::~ParameterCache() = default;

std::shared_ptr<void> ParameterCache::enter(Use use) {
  now_ = use;
  order_.clear();
  position_ = 0;
  is_as_expected_ = !gathers_all_ && !expected_[static_cast<size_t>(use)].empty();
  if (gathers_all_) {
    gather_all();
  }
  return std::make_shared<Scope>(*this);
}

std::vector<size_t> ParameterCache::find(c10::ArrayRef<const c10::IValue> inputs) const {
  std::vector<size_t> found;
  const auto look = [&](const torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) {
      return;
    }
    const auto index = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
    if (index != by_storage_.end() &&
        std::find(found.begin(), found.end(), index->second) == found.end()) {
      found.push_back(index->second);
    }
  };
  for (const c10::IValue& input : inputs) {
    visit_tensors(input, look);
  }
  return found;
}

void ParameterCache::use(size_t index) {
  Entry& used = entries_[index];
  used.last_use = ++clock_;
  used.is_prefetched = false;
  if (!used.flat->is_whole()) {
    begin_gather(index);
  }
  await(used);
  if (order_.empty() || order_.back() != index) {
    order_.push_back(index);
    follow(index);
  }
}

void ParameterCache::begin_gather(size_t index) {
  Entry& wanted = entries_[index];
  make_room(wanted.flat->padded());
  wanted.flat->allocate();
  live_ += wanted.flat->padded();
  // After a fault the other workers no longer take part. The values are undefined, but everything
  // computed from here on is discarded.
  if (fault_ == nullptr) {
    wanted.arriving = exchange_.start([flat = wanted.flat](Communicator& channel) {
      flat->gather(channel);
      return torch::Tensor();
    });
  }
}

void ParameterCache::await(Entry& entry) {
  if (entry.arriving == nullptr) {
    return;
  }
  exchange_.wait(entry.arriving);
  if (entry.arriving->hasError() && fault_ == nullptr) {
    fault_ = entry.arriving->exception_ptr();
  }
  entry.arriving.reset();
}

// Releases the least recently used flat parameters until `elements` more fit, or until no flat
// parameter can be released.
void ParameterCache::make_room(int64_t elements) {
  while (live_ + elements > options_.max_live_elements) {
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      const bool may_go = entry.flat->is_whole() && entry.pins == 0 && !entry.is_prefetched &&
                          entry.arriving == nullptr;
      if (may_go && (oldest == nullptr || entry.last_use < oldest->last_use)) {
        oldest = &entry;
      }
    }
    if (oldest == nullptr) {
      return;
    }
    oldest->flat->release();
    live_ -= oldest->flat->padded();
  }
}

// Compares the use with the plan. If it matches, the next flat parameters are gathered ahead.
void ParameterCache::follow(size_t index) {
  const std::vector<size_t>& expected = expected_[static_cast<size_t>(now_)];
  if (!is_as_expected_) {
    return;
  }
  if (position_ >= expected.size() || expected[position_] != index) {
    forget_plan();
    return;
  }
  ++position_;
  if (exchange_.runs_concurrently()) {
    prefetch();
  }
}

void ParameterCache::prefetch() {
  const std::vector<size_t>& expected = expected_[static_cast<size_t>(now_)];
  // The window starts at the next planned use. Entries in it are protected by is_prefetched even if
  // they are already whole: they would otherwise be released and gathered again.
  int64_t ahead = 0;
  for (size_t at = position_; at < expected.size(); ++at) {
    Entry& next = entries_[expected[at]];
    ahead += next.flat->padded();
    if (ahead > options_.prefetch_elements) {
      return;
    }
    next.is_prefetched = true;
    if (!next.flat->is_whole()) {
      begin_gather(expected[at]);
    }
  }
}

void ParameterCache::forget_plan() {
  is_as_expected_ = false;
  for (Entry& entry : entries_) {
    entry.is_prefetched = false;
  }
}

void ParameterCache::gather_all() {
  for (size_t index = 0; index < entries_.size(); ++index) {
    ++entries_[index].pins;
    begin_gather(index);
  }
  for (Entry& entry : entries_) {
    await(entry);
  }
}

// The recorded order of this pass becomes the plan of the next one. Outstanding gathers must
// complete before their memory is released.
void ParameterCache::release_all() {
  forget_plan();
  for (Entry& entry : entries_) {
    await(entry);
    entry.pins = 0;
    if (entry.flat->is_whole()) {
      entry.flat->release();
      live_ -= entry.flat->padded();
    }
  }
  LOCKSTEP_CHECK(live_ == 0);  // live_ counts exactly the whole and the arriving entries
  expected_[static_cast<size_t>(now_)] = order_;
}

}  // namespace lockstep::strategy::zero
