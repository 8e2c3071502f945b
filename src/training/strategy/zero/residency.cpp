// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/residency.h"

#include <ATen/record_function.h>
#include <algorithm>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <optional>

#include "common/base/check.h"

namespace lockstep::strategy::zero {
namespace {

// libtorch has a fixed list of kinds. This one is for its own tests, so no training uses it.
constexpr auto kWatchKind = c10::DebugInfoKind::TEST_INFO;

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

// Thread-local entry through which the callbacks find the Residency. Autograd copies it, like the
// callbacks, to its own threads.
class Residency::Watch : public c10::DebugInfoBase {
 public:
  explicit Watch(Residency& residency) : residency_(residency) {}

  // A running operator, with the units that must not be released meanwhile.
  struct Running : at::ObserverContext {
    Residency* residency = nullptr;
    std::vector<size_t> guests;
  };

  static std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& function) {
    auto* watch = dynamic_cast<Watch*>(c10::ThreadLocalDebugInfo::get(kWatchKind));
    if (watch == nullptr) {
      return nullptr;
    }
    Residency& residency = watch->residency_;
    std::vector<size_t> found = residency.find(function.inputs());
    if (found.empty()) {
      return nullptr;
    }
    // Operators of the gather itself must not trigger the callbacks.
    const at::RecordFunctionGuard quiet(false);
    // All units are pinned before the first is gathered: making room for one must not release
    // another one of the same operator.
    for (const size_t guest : found) {
      ++residency.guests_[guest].pins;
    }
    for (const size_t guest : found) {
      residency.use(guest);
    }
    auto running = std::make_unique<Running>();
    running->residency = &residency;
    running->guests = std::move(found);
    return running;
  }

  static void after(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
    if (auto* running = dynamic_cast<Running*>(context)) {
      for (const size_t guest : running->guests) {
        --running->residency->guests_[guest].pins;
      }
    }
  }

 private:
  Residency& residency_;
};

class Residency::Scope {
 public:
  explicit Scope(Residency& residency)
      : residency_(residency),
        info_(kWatchKind, std::make_shared<Watch>(residency)),
        handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&Watch::before, &Watch::after)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}
  ~Scope() {
    at::removeCallback(handle_);
    residency_.release_all();
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Residency& residency_;
  c10::DebugInfoGuard info_;
  at::CallbackHandle handle_;
};

Residency::Residency(std::vector<Unit*> units,
                     Exchange& exchange,
                     const ZeroOptions& options,
                     bool gathers_all,
                     std::exception_ptr& fault)
    : exchange_(exchange), options_(options), gathers_all_(gathers_all), fault_(fault) {
  for (Unit* unit : units) {
    by_storage_[unit->storage()] = guests_.size();
    guests_.push_back({.unit = unit, .arriving = {}});
  }
}

Residency::~Residency() = default;

std::shared_ptr<void> Residency::enter(Use use) {
  now_ = use;
  order_.clear();
  position_ = 0;
  is_as_expected_ = !gathers_all_ && !expected_[static_cast<size_t>(use)].empty();
  if (gathers_all_) {
    gather_all();
  }
  return std::make_shared<Scope>(*this);
}

std::vector<size_t> Residency::find(c10::ArrayRef<const c10::IValue> inputs) const {
  std::vector<size_t> found;
  const auto look = [&](const torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) {
      return;
    }
    const auto guest = by_storage_.find(tensor.storage().unsafeGetStorageImpl());
    if (guest != by_storage_.end() &&
        std::find(found.begin(), found.end(), guest->second) == found.end()) {
      found.push_back(guest->second);
    }
  };
  for (const c10::IValue& input : inputs) {
    visit_tensors(input, look);
  }
  return found;
}

void Residency::use(size_t guest) {
  Guest& used = guests_[guest];
  used.last_use = ++clock_;
  used.is_awaited = false;
  if (!used.unit->is_whole()) {
    begin_gather(guest);
  }
  await(used);
  if (order_.empty() || order_.back() != guest) {
    order_.push_back(guest);
    follow(guest);
  }
}

void Residency::begin_gather(size_t guest) {
  Guest& wanted = guests_[guest];
  make_room(wanted.unit->padded());
  wanted.unit->take_memory();
  live_ += wanted.unit->padded();
  most_live_ = std::max(most_live_, live_);
  ++gathers_;
  // After a fault the other workers no longer take part. The values are undefined, but everything
  // computed from here on is discarded.
  if (fault_ == nullptr) {
    wanted.arriving = exchange_.start([unit = wanted.unit](Communicator& channel) {
      unit->fill(channel);
      return torch::Tensor();
    });
  }
}

void Residency::await(Guest& guest) {
  if (guest.arriving == nullptr) {
    return;
  }
  exchange_.wait(guest.arriving);
  if (guest.arriving->hasError() && fault_ == nullptr) {
    fault_ = guest.arriving->exception_ptr();
  }
  guest.arriving.reset();
}

// Releases the least recently used units until `elements` more fit, or until no unit can be
// released.
void Residency::make_room(int64_t elements) {
  while (live_ + elements > options_.max_live_elements) {
    Guest* oldest = nullptr;
    for (Guest& guest : guests_) {
      const bool may_go = guest.unit->is_whole() && guest.pins == 0 && !guest.is_awaited &&
                          guest.arriving == nullptr;
      if (may_go && (oldest == nullptr || guest.last_use < oldest->last_use)) {
        oldest = &guest;
      }
    }
    if (oldest == nullptr) {
      return;
    }
    oldest->unit->release();
    live_ -= oldest->unit->padded();
  }
}

// Compares the use with the plan. If it matches, the next units are gathered ahead.
void Residency::follow(size_t guest) {
  const std::vector<size_t>& expected = expected_[static_cast<size_t>(now_)];
  if (!is_as_expected_) {
    return;
  }
  if (position_ >= expected.size() || expected[position_] != guest) {
    forget_plan();
    return;
  }
  ++position_;
  if (exchange_.runs_beside()) {
    prefetch();
  }
}

void Residency::prefetch() {
  const std::vector<size_t>& expected = expected_[static_cast<size_t>(now_)];
  // The window starts at the next planned use. Units in it are protected by is_awaited even if they
  // are already whole: they would otherwise be released and gathered again.
  int64_t ahead = 0;
  for (size_t at = position_; at < expected.size(); ++at) {
    Guest& next = guests_[expected[at]];
    ahead += next.unit->padded();
    if (ahead > options_.prefetch_elements) {
      return;
    }
    next.is_awaited = true;
    if (!next.unit->is_whole()) {
      ++prefetches_;
      begin_gather(expected[at]);
    }
  }
}

void Residency::forget_plan() {
  is_as_expected_ = false;
  for (Guest& guest : guests_) {
    guest.is_awaited = false;
  }
}

void Residency::gather_all() {
  for (size_t guest = 0; guest < guests_.size(); ++guest) {
    ++guests_[guest].pins;
    begin_gather(guest);
  }
  for (Guest& guest : guests_) {
    await(guest);
  }
}

// The recorded order of this pass becomes the plan of the next one. Outstanding gathers must
// complete before their memory is released.
void Residency::release_all() {
  forget_plan();
  for (Guest& guest : guests_) {
    await(guest);
    guest.pins = 0;
    if (guest.unit->is_whole()) {
      guest.unit->release();
    }
  }
  live_ = 0;
  expected_[static_cast<size_t>(now_)] = order_;
}

}  // namespace lockstep::strategy::zero
