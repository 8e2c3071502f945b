// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/engine.h"

#include <algorithm>
#include <fmt/format.h>
#include <torch/utils.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "lockstep/error.h"
#include "training/comm/format_ranks.h"

namespace lockstep::strategy::horovod {
namespace {

using std::chrono::duration_cast;

Engine::Clock::duration to_duration(double seconds) {
  return duration_cast<Engine::Clock::duration>(std::chrono::duration<double>(seconds));
}

// The vote of one cycle, for a response cache with `slots` slots:
//
//   byte   0          1                    1 + slots              1 + 2 * slots
//          | no news  | state of each slot | empty, of each slot  |
//          | 1 byte   | 1 byte per slot    | 1 byte per slot      |
//
// - no news (kNoNews): 0 if this worker has something for the coordinator, otherwise 1.
// - state: a Vote on the tensor of this slot.
// - empty: 1 if this worker has no gradient for the tensor, otherwise 0.
//
// The votes of all workers are combined with an element-wise minimum. The values are chosen so that
// the minimum is the decision:
//
//   no news   0 if any worker has news: a negotiation with the coordinator follows
//   state     kChanged if the tensor changed or stalled on any worker: all erase the slot
//             kNotReady if it is not ready on some worker: it stays for a later cycle
//             kReady only if it is ready on all workers: it is reduced in this cycle
//   empty     1 only if no worker has a gradient: the tensor is finished without a reduction
//
// The length must be equal on all workers. It is, because every worker applies the same changes to
// its cache in the same order: count_votes() erases and touches by the combined vote, negotiate()
// inserts by the broadcast responses.
enum Flag : size_t { kNoNews, kFlags };

// The order of the values matters: see above.
enum Vote : uint8_t { kChanged = 0, kNotReady = 1, kReady = 2 };
static_assert(kChanged < kNotReady && kNotReady < kReady);

Error to_error(const Response& fault) {
  Error error(static_cast<ExitCode>(fault.code), fault.sentence);
  for (const auto& [label, value] : fault.facts) {
    error.fact(label, value);
  }
  if (!fault.hint.empty()) {
    error.hint(fault.hint);
  }
  return error;
}

Signature signature_of(const Announcement& announcement) {
  return {.name = announcement.name,
          .shape = announcement.value.sizes().vec(),
          .type = announcement.value.scalar_type(),
          .operation = announcement.operation};
}

}  // namespace

Engine::Engine(std::unique_ptr<Communicator> channel, const HorovodOptions& options, Report report)
    : channel_(std::move(channel)),
      options_(options),
      report_(report ? std::move(report) : [](const std::string& text) { log::warn("{}", text); }),
      keep_alive_(std::chrono::seconds(1)),
      timeline_(options.timeline.empty() || channel_->rank() != 0
                    ? nullptr
                    : std::make_unique<Timeline>(options.timeline, options.mark_cycles)),
      cache_(options.cache_capacity),
      fusion_(*channel_, timeline_.get()) {
  for (const double seconds : {options.stall_warning, options.stall_shutdown}) {
    if (seconds > 0) {
      keep_alive_ = std::min(keep_alive_, to_duration(seconds / 4));
    }
  }
  if (channel_->device()) {
    side_.emplace(*channel_->device());
  }
  if (channel_->rank() == 0) {
    coordinator_ = std::make_unique<Coordinator>(
        channel_->size(), options.stall_warning, options.stall_shutdown);
    coordinator_->on_ready([this](const std::string& name, int rank) { trace_ready(name, rank); });
    if (options.autotune) {
      autotune_ = std::make_unique<Autotune>(options, Clock::now());
    }
  }
  thread_ = std::jthread([this] { run(); });
}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    wants_leave_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Engine::announce(std::vector<Announcement> tensors) {
  bool is_first = false;
  if (side_) {
    side_->follow();
  }
  {
    const std::lock_guard lock(mutex_);
    if (failure_ != nullptr) {
      std::rethrow_exception(failure_);
    }
    is_first = announced_.empty() && !tensors.empty();
    for (Announcement& tensor : tensors) {
      if (!unfinished_.insert(tensor.name).second) {
        throw Error(ExitCode::Bug, fmt::format("tensor '{}' was announced twice", tensor.name));
      }
      announced_.push_back(std::move(tensor));
    }
  }
  // Later announcements need no notification: the engine is awake, or in the pause of one cycle
  // time that collects them.
  if (is_first) {
    wake_.notify_one();
  }
}

std::set<std::string> Engine::wait() {
  std::unique_lock lock(mutex_);
  is_waited_for_ = true;
  wake_.notify_one();
  done_.wait(lock, [this] { return unfinished_.empty() || failure_ != nullptr; });
  is_waited_for_ = false;
  if (!unfinished_.empty()) {
    std::rethrow_exception(failure_);
  }
  if (side_) {
    side_->let_follow();
  }
  std::set<std::string> empty;
  empty.swap(empty_);
  return empty;
}

int Engine::join() {
  std::unique_lock lock(mutex_);
  LOCKSTEP_CHECK(unfinished_.empty());
  wants_join_ = true;
  last_joined_.reset();
  wake_.notify_one();
  done_.wait(lock, [this] { return last_joined_ || failure_ != nullptr; });
  if (!last_joined_) {
    std::rethrow_exception(failure_);
  }
  return *last_joined_;
}

void Engine::end_step() {
  const std::lock_guard lock(mutex_);
  ++steps_ended_;
}

EngineCounts Engine::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Engine::run() {
  const torch::NoGradGuard no_grad;
  try {
    std::optional<c10::StreamGuard> guard;
    if (side_) {
      guard.emplace(side_->stream());
    }
    do {
      sleep();
    } while (cycle());
  } catch (...) {
    fail(std::current_exception());
  }
}

// Pauses until the next cycle is useful:
// - nothing pending: until something is announced, but at most keep_alive_, because the others may
//   block in the vote; then one cycle time, in which more tensors may be announced and fused;
// - something pending: until one cycle time after the last cycle.
//
// A caller in wait() announces nothing more, so the pause ends at once if there is something new to
// vote on or if the last cycle made progress.
void Engine::sleep() {
  const auto cycle_time = to_duration(options_.cycle_ms / 1000);
  std::unique_lock lock(mutex_);
  const auto is_urgent = [this] {
    return wants_leave_ || wants_join_ ||
           (is_waited_for_ && (!announced_.empty() || (!pending_.empty() && made_progress_)));
  };
  const auto is_awake = [&] {
    return is_urgent() || !announced_.empty();
  };
  if (pending_.empty() && !is_joined_) {
    if (wake_.wait_for(lock, keep_alive_, is_awake)) {
      wake_.wait_for(lock, cycle_time, is_urgent);
    }
  } else {
    wake_.wait_until(lock, last_cycle_ + cycle_time, is_urgent);
  }
}

bool Engine::cycle() {
  last_cycle_ = Clock::now();
  made_progress_ = false;
  News news = take_news();
  if (timeline_ != nullptr) {
    timeline_->cycle();
  }
  tune(news);
  const std::vector<uint8_t> mine = vote(news);
  torch::Tensor votes = torch::empty({static_cast<int64_t>(mine.size())}, torch::kUInt8);
  std::copy(mine.begin(), mine.end(), votes.data_ptr<uint8_t>());
  channel_->all_reduce(votes, Reduction::Min);
  const std::vector<uint8_t> all(votes.data_ptr<uint8_t>(),
                                 votes.data_ptr<uint8_t>() + votes.numel());
  LOCKSTEP_CHECK(all.size() == kFlags + 2 * cache_.slots());
  std::vector<Response> responses = count_votes(all);
  const bool is_full = all[kNoNews] == 0;
  if (is_full) {
    for (Response& response : negotiate(news)) {
      responses.push_back(std::move(response));
    }
  }
  {
    const std::lock_guard lock(mutex_);
    ++counts_.cycles;
    counts_.full_rounds += is_full ? 1 : 0;
  }
  // Reductions first: a Left or Fault response throws, and tensors that all workers had announced
  // by then are still completed on all of them.
  perform(responses);
  return handle(responses);
}

Engine::News Engine::take_news() {
  News news;
  const std::lock_guard lock(mutex_);
  for (Announcement& announcement : announced_) {
    Pending pending{
        .announced = announcement, .tensor = signature_of(announcement), .since = last_cycle_};
    const std::string name = announcement.name;
    order_.push_back(name);
    pending_.emplace(name, std::move(pending));
    trace_ready(name, channel_->rank());
  }
  announced_.clear();
  news.wants_join = wants_join_;
  wants_join_ = false;
  news.wants_leave = wants_leave_ && !has_asked_to_leave_;
  return news;
}

bool Engine::waits_for_coordinator(const Pending& pending) const {
  const auto slot = cache_.find(pending.tensor.name);
  return !slot || cache_.at(*slot) != pending.tensor || pending.is_stalled;
}

std::vector<uint8_t> Engine::vote(const News& news) {
  const size_t slots = cache_.slots();
  std::vector<uint8_t> votes(kFlags + 2 * slots, 1);
  bool has_news = news.wants_join || news.wants_leave || news.setting.has_value();
  // A tensor needs the coordinator if it is not in the cache, if its signature has changed, or if
  // it has waited for too long. In the last case it is treated as changed: only the coordinator
  // knows which ranks are missing.
  for (auto& [name, pending] : pending_) {
    const double waited = std::chrono::duration<double>(last_cycle_ - pending.since).count();
    const double stall =
        options_.stall_warning > 0 ? options_.stall_warning : options_.stall_shutdown;
    pending.is_stalled = pending.is_stalled || (stall > 0 && waited >= stall);
    if (waits_for_coordinator(pending)) {
      has_news = has_news || !pending.is_requested;
    }
  }
  if (coordinator_ != nullptr) {
    // A stall beyond the limit is news too: only a negotiation can carry the Fault to all workers.
    has_news = has_news || coordinator_->find_shutdown(last_cycle_).has_value();
  }
  votes[kNoNews] = has_news ? 0 : 1;
  for (size_t slot = 0; slot < slots; ++slot) {
    uint8_t& state = votes[kFlags + slot];
    uint8_t& nothing = votes[kFlags + slots + slot];
    if (!cache_.at(slot)) {
      state = kNotReady;
      continue;
    }
    const auto found = pending_.find(cache_.at(slot)->name);
    if (found == pending_.end()) {
      // A worker that has joined contributes zeros to everything.
      state = is_joined_ ? kReady : kNotReady;
      nothing = 1;
    } else {
      state = waits_for_coordinator(found->second) ? kChanged : kReady;
      nothing = found->second.announced.empty ? 1 : 0;
    }
  }
  return votes;
}

// Applies the combined vote. Ready tensors are returned in the order of their slots, which is
// equal on all workers.
std::vector<Response> Engine::count_votes(const std::vector<uint8_t>& votes) {
  std::vector<Response> ready;
  const size_t slots = cache_.slots();
  for (size_t slot = 0; slot < slots; ++slot) {
    const uint8_t state = votes[kFlags + slot];
    if (state == kChanged) {
      cache_.erase(slot);
    } else if (state == kReady) {
      ready.push_back({.kind = Response::Kind::Reduce,
                       .tensor = *cache_.at(slot),
                       .empty = votes[kFlags + slots + slot] == 1});
      cache_.touch(slot);
    }
  }
  return ready;
}

std::vector<Request> Engine::make_requests(const News& news) {
  std::vector<Request> requests;
  for (const std::string& name : order_) {
    const auto found = pending_.find(name);
    if (found == pending_.end() || found->second.is_requested ||
        !waits_for_coordinator(found->second)) {
      continue;
    }
    Pending& pending = found->second;
    pending.is_requested = true;
    requests.push_back(
        {.kind = Request::Kind::Reduce,
         .tensor = pending.tensor,
         .empty = pending.announced.empty,
         .waited = std::chrono::duration<double>(last_cycle_ - pending.since).count()});
  }
  if (news.wants_join) {
    is_joined_ = true;
    requests.push_back({.kind = Request::Kind::Join});
  }
  if (news.wants_leave) {
    has_asked_to_leave_ = true;
    requests.push_back({.kind = Request::Kind::Leave});
  }
  return requests;
}

// One round with the coordinator: requests of all workers to rank 0, its responses to all workers.
// Responses are inserted into the cache in the order of the broadcast, so that all caches stay
// equal.
//
// make_requests() runs after count_votes() of the same cycle. A slot that was erased by the vote
// of another worker is therefore requested again at once by every worker that has the tensor ready.
std::vector<Response> Engine::negotiate(const News& news) {
  const std::vector<std::string> texts = channel_->all_gather_bytes(encode(make_requests(news)));
  std::string answer;
  if (coordinator_ != nullptr) {
    std::vector<std::vector<Request>> requests;
    requests.reserve(texts.size());
    for (const std::string& text : texts) {
      requests.push_back(decode_requests(text));
    }
    std::vector<Response> responses = coordinator_->take(requests, last_cycle_);
    if (const auto fault = coordinator_->find_shutdown(last_cycle_)) {
      responses.push_back(*fault);
    }
    if (news.setting) {
      responses.push_back({.kind = Response::Kind::Tune,
                           .fusion_bytes = news.setting->fusion_bytes,
                           .cycle_ms = news.setting->cycle_ms});
    }
    answer = encode(responses);
  }
  std::vector<Response> responses = decode_responses(channel_->broadcast_bytes(answer));
  for (const Response& response : responses) {
    if (response.kind == Response::Kind::Reduce) {
      cache_.insert(response.tensor);
    }
  }
  return responses;
}

void Engine::perform(const std::vector<Response>& responses) {
  std::vector<Signature> tensors;
  for (const Response& response : responses) {
    if (response.kind != Response::Kind::Reduce) {
      continue;
    }
    if (negotiating_.erase(response.tensor.name) > 0 && timeline_ != nullptr) {
      timeline_->end(response.tensor.name);
    }
    made_progress_ = true;
    if (response.empty || response.tensor.elements() == 0) {
      finish(response.tensor.name, response.empty);
    } else {
      tensors.push_back(response.tensor);
    }
  }
  for (const std::vector<size_t>& group : plan_fusion(tensors, options_.fusion_bytes)) {
    std::vector<Share> shares;
    for (const size_t each : group) {
      const auto found = pending_.find(tensors[each].name);
      LOCKSTEP_CHECK(found != pending_.end() || is_joined_);
      shares.push_back(
          {.tensor = tensors[each],
           .value = found == pending_.end() ? torch::Tensor() : found->second.announced.value});
      step_bytes_ += tensors[each].wire_bytes();
    }
    fusion_.reduce(shares);
    {
      const std::lock_guard lock(mutex_);
      ++counts_.reductions;
    }
    for (const Share& share : shares) {
      finish(share.tensor.name, false);
    }
  }
}

// A worker that has joined takes part in reductions of tensors that it has not announced; it has
// nothing to finish.
void Engine::finish(const std::string& name, bool was_empty) {
  if (pending_.erase(name) == 0) {
    return;
  }
  if (pending_.empty()) {
    order_.clear();
  }
  const std::lock_guard lock(mutex_);
  unfinished_.erase(name);
  if (was_empty) {
    empty_.insert(name);
  }
  if (unfinished_.empty()) {
    done_.notify_all();
  }
}

bool Engine::handle(const std::vector<Response>& responses) {
  std::vector<int> left;
  for (const Response& response : responses) {
    switch (response.kind) {
      case Response::Kind::Fault:
        throw to_error(response);
      case Response::Kind::Tune:
        options_.fusion_bytes = response.fusion_bytes;
        options_.cycle_ms = response.cycle_ms;
        break;
      case Response::Kind::AllJoined: {
        is_joined_ = false;
        const std::lock_guard lock(mutex_);
        last_joined_ = response.rank;
        done_.notify_all();
        break;
      }
      case Response::Kind::Left:
        left.push_back(response.rank);
        break;
      case Response::Kind::Reduce:
        break;
    }
  }
  if (coordinator_ != nullptr) {
    if (const auto report = coordinator_->find_stall(last_cycle_)) {
      report_(*report);
    }
  }
  if (!left.empty()) {
    throw Error(ExitCode::TryAgain,
                fmt::format("{} {} left the exchange of gradients",
                            comm::format_ranks(left),
                            left.size() == 1 ? "has" : "have"))
        .hint("check its output; if it had fewer batches than the others, call join() on it");
  }
  return true;
}

void Engine::fail(std::exception_ptr failure) {
  const std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  done_.notify_all();
}

void Engine::trace_ready(const std::string& name, int rank) {
  if (timeline_ == nullptr) {
    return;
  }
  if (negotiating_.insert(name).second) {
    timeline_->begin(name, "NEGOTIATE_ALLREDUCE");
  }
  // The request of rank 0 itself arrives twice: here and through the table of the coordinator.
  if (rank != channel_->rank() || !pending_.contains(name) || !pending_.at(name).is_requested) {
    timeline_->tick(name, rank);
  }
}

void Engine::tune(News& news) {
  if (autotune_ == nullptr || autotune_->is_done()) {
    return;
  }
  int64_t ended = 0;
  {
    const std::lock_guard lock(mutex_);
    ended = std::exchange(steps_ended_, 0);
  }
  for (; ended > 0 && !news.setting; --ended) {
    news.setting = autotune_->step(std::exchange(step_bytes_, 0), last_cycle_);
  }
  if (autotune_->is_done()) {
    log::info("autotune finished; to keep its result: {}", autotune_->pinned());
  }
}

}  // namespace lockstep::strategy::horovod
