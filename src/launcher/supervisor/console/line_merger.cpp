// SPDX-License-Identifier: Apache-2.0
//
// waiting_ is the output in the order in which it will be shown; a line is addressed by its
// position, which counts all lines since the start:
//
//   position   first_          ready_until_                  first_ + size
//              | ready to show | waits for twins of other ranks |
//   ranks      {0-3}   {0,1}   {0-3}   {2}   {0}
//
// Invariants: the lines of one rank and stream have ascending positions; last_of() is the one with
// the highest position, or null if none waits. A line in front of ready_until_ does not move any
// more. Waiting objects have stable addresses, since last_waiting_ and by_hash_ point to them.
#include "launcher/supervisor/console/line_merger.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace lockstep::supervisor {
namespace {

// Candidates per text. Further lines with the same text are found only as the successor of the last
// line of their rank.
constexpr size_t kMaxTextLength = 32;
// Rough cost of a new line (hash, allocation, map) relative to a line that joins its twin at once.
// Display limits the sum.
constexpr size_t kWorkOfNewLine = 8;
constexpr uint64_t kMaxMoved = 256;

}  // namespace

// Ranks of a larger next attempt extend the table.
LineMerger::Waiting*& LineMerger::last_of(int rank, Stream stream) {
  const auto index = static_cast<size_t>(rank);
  if (index >= last_waiting_.size()) {
    last_waiting_.resize(index + 1);
  }
  return stream == Stream::Out ? last_waiting_[index].out : last_waiting_[index].err;
}

void LineMerger::add(int rank, Stream stream, std::string_view text, Time now) {
  Waiting*& last = last_of(rank, stream);
  ++work_;
  // The common case: all ranks write the same lines, so the line after the last one of this rank is
  // its twin.
  const uint64_t next = last == nullptr ? first_ : last->position + 1;
  if (next < first_ + waiting_.size() && at(next).line.stream == stream &&
      at(next).line.text == text) {
    last = &at(next);
  } else {
    const size_t hash = std::hash<std::string_view>()(text);
    Waiting* const twin = find_twin(last, stream, text, hash);
    last = twin != nullptr ? twin : &append(stream, text, hash, now);
  }
  last->line.ranks.insert(rank);
}

// A line with the same text that a rank may join whose last line is `last`. Prefers a line behind
// `last`, which needs no move.
LineMerger::Waiting* LineMerger::find_twin(const Waiting* last,
                                           Stream stream,
                                           std::string_view text,
                                           size_t hash) {
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) {
    return nullptr;
  }
  Waiting* after = nullptr;   // the first of those behind `last`
  Waiting* before = nullptr;  // the last of those before it
  for (Waiting* const one : found->second) {
    if (one->line.stream != stream || one->line.text != text) {
      continue;
    }
    const bool is_behind = last == nullptr || one->position > last->position;
    Waiting*& best = is_behind ? after : before;
    if (best == nullptr || (one->position < best->position) == is_behind) {
      best = one;
    }
  }
  if (after != nullptr || before == nullptr) {
    return after;
  }
  return move_behind(*before, *last) ? before : nullptr;
}

// Moves `twin`, and all lines that must stay behind it, behind `last`. Returns false if this would
// change the order of the lines of some rank.
//
// The lines that must stay behind the twin are the later lines of its ranks, the later lines of the
// ranks of those, and so on. If `last` is not one of them, all of them can move behind it in their
// old order.
bool LineMerger::move_behind(Waiting& twin, const Waiting& last) {
  if (last.position - twin.position > kMaxMoved || twin.position < ready_until_) {
    return false;
  }
  RankSet bound = twin.line.ranks;
  std::vector<uint64_t> moving = {twin.position};
  for (uint64_t position = twin.position + 1; position <= last.position; ++position) {
    const Line& line = at(position).line;
    if (line.stream == twin.line.stream && line.ranks.intersects(bound)) {
      bound.insert(line.ranks);
      moving.push_back(position);
    }
  }
  if (moving.back() == last.position) {
    return false;
  }
  std::vector<std::unique_ptr<Waiting>> moved;
  uint64_t to = twin.position;
  const uint64_t end = last.position + 1;
  auto next_moving = moving.begin();
  for (uint64_t position = to; position < end; ++position) {
    std::unique_ptr<Waiting>& one = waiting_[position - first_];
    if (next_moving != moving.end() && *next_moving == position) {
      moved.push_back(std::move(one));
      ++next_moving;
    } else {
      one->position = to;
      waiting_[to++ - first_] = std::move(one);
    }
  }
  for (std::unique_ptr<Waiting>& one : moved) {
    one->position = to;
    waiting_[to++ - first_] = std::move(one);
  }
  return true;
}

LineMerger::Waiting& LineMerger::append(Stream stream,
                                        std::string_view text,
                                        size_t hash,
                                        Time now) {
  auto one = std::make_unique<Waiting>();
  one->line = {.stream = stream, .text = std::string(text), .ranks = {}};
  one->until = now + kWindow;
  one->hash = hash;
  one->position = first_ + waiting_.size();
  next_due_ = std::min(next_due_, one->until);
  bytes_ += text.size();
  work_ += kWorkOfNewLine;
  if (std::vector<Waiting*>& same = by_hash_[hash]; same.size() < kMaxTextLength) {
    same.push_back(one.get());
  }
  waiting_.push_back(std::move(one));
  if (bytes_ > kMaxBytes) {
    release_all();
  } else if (waiting_.size() > kMaxLines) {
    ready_until_ = std::max(ready_until_, first_ + waiting_.size() / 2);
  }
  return *waiting_.back();
}

// Lines before the last one of the rank are released too, else they would be shown in another
// order.
void LineMerger::release(int rank, Stream stream) {
  if (const Waiting* const last = last_of(rank, stream)) {
    ready_until_ = std::max(ready_until_, last->position + 1);
  }
}

void LineMerger::release_all() {
  ready_until_ = first_ + waiting_.size();
}

// A move can place an older line behind a newer one, so `until` is not sorted and all lines are
// searched. next_due_ makes this rare: once per window and not once per line.
void LineMerger::end_due_waits(Time now) {
  if (now < next_due_) {
    return;
  }
  next_due_ = Time::max();
  for (const auto& one : waiting_) {
    if (one->until <= now) {
      ready_until_ = std::max(ready_until_, one->position + 1);
    } else {
      next_due_ = std::min(next_due_, one->until);
    }
  }
}

std::optional<LineMerger::Line> LineMerger::find_ready(Time now) {
  if (waiting_.empty()) {
    return std::nullopt;
  }
  end_due_waits(now);
  const bool is_complete = waiting_.front()->line.ranks.size() >= world_size_;
  if (first_ >= ready_until_ && !is_complete) {
    return std::nullopt;
  }
  return take_front();
}

// The last line of a rank can only be cleared if it is this one: a rank that has a later line keeps
// it.
LineMerger::Line LineMerger::take_front() {
  const std::unique_ptr<Waiting> front = std::move(waiting_.front());
  waiting_.pop_front();
  ++first_;
  bytes_ -= front->line.text.size();
  forget(*front);
  for (const RankSet::Range& range : front->line.ranks.ranges()) {
    for (int rank = range.first; rank <= range.last; ++rank) {
      Waiting*& last = last_of(rank, front->line.stream);
      last = last == front.get() ? nullptr : last;
    }
  }
  if (waiting_.empty()) {
    next_due_ = Time::max();
  }
  return std::move(front->line);
}

void LineMerger::forget(const Waiting& one) {
  const auto same = by_hash_.find(one.hash);
  if (same == by_hash_.end()) {
    return;
  }
  std::erase(same->second, &one);
  if (same->second.empty()) {
    by_hash_.erase(same);
  }
}

std::optional<LineMerger::Time> LineMerger::next_time() const {
  if (waiting_.empty()) {
    return std::nullopt;
  }
  return first_ < ready_until_ ? Time::min() : next_due_;
}

}  // namespace lockstep::supervisor
