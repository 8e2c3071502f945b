// SPDX-License-Identifier: Apache-2.0
#include "training/comm/call_record.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::comm {
namespace {

using Clock = std::chrono::steady_clock;

// A sequence lock. `version` is odd while the fields are being written:
//
//   writer:  version = v + 1;  fields (release);  version = v + 2 (release)
//   reader:  v1 = version (acquire);  fields (acquire);  v2 = version (acquire)
//            valid if v1 is even and v1 == v2, otherwise read again
//
// The fields are atomics because reader and writer overlap. The store of the odd version may be
// relaxed: it precedes every release store of a field. A reader that sees one new field therefore
// also sees the odd version, or a later one, in its second load and retries.
constexpr auto kStore = std::memory_order_release;
constexpr auto kLoad = std::memory_order_acquire;

template <typename Body>
void write(std::atomic<uint64_t>& version, const Body& body) {
  const uint64_t before = version.load(std::memory_order_relaxed);
  version.store(before + 1, std::memory_order_relaxed);
  body();
  version.store(before + 2, kStore);
}

template <typename Body>
void read_whole(const std::atomic<uint64_t>& version, const Body& body) {
  for (;;) {
    const uint64_t before = version.load(kLoad);
    if (before % 2 == 0) {
      body();
      if (version.load(kLoad) == before) {
        return;
      }
    }
  }
}

std::string_view plural(torch::ScalarType type) {
  switch (type) {
    case torch::kFloat32:
      return "floats";
    case torch::kFloat64:
      return "doubles";
    case torch::kInt32:
      return "32-bit integers";
    case torch::kInt64:
      return "64-bit integers";
    case torch::kUInt8:
      return "bytes";
    case torch::kFloat16:
      return "fp16 numbers";
    case torch::kBFloat16:
      return "bf16 numbers";
    default:
      break;
  }
  return toString(type);
}

}  // namespace

std::string to_text(const CallWords& words) {
  std::string text = words.what;
  if (words.count >= 0) {
    text += fmt::format(" of {}", format_count(words.count));
  }
  if (words.type) {
    text += fmt::format(" {}", plural(*words.type));
  }
  if (words.root >= 0) {
    text += fmt::format(" from rank {}", words.root);
  }
  return text;
}

CallRecord::CallRecord() {
  last_.since = now();
}

void CallRecord::begin(const CallWords& words) {
  failed_.store(false, std::memory_order_relaxed);
  write(last_.version, [&] {
    last_.number.store(last_.number.load(std::memory_order_relaxed) + 1, kStore);
    last_.what.store(words.what, kStore);
    last_.count.store(words.count, kStore);
    last_.type.store(words.type ? static_cast<int32_t>(*words.type) : -1, kStore);
    last_.root.store(words.root, kStore);
    last_.inside.store(true, kStore);
    last_.since.store(now(), kStore);
  });
}

void CallRecord::end(bool failed) {
  if (failed) {
    // The description stays readable: this call may be the reason why the worker fails.
    failed_.store(true, std::memory_order_relaxed);
    return;
  }
  const int64_t end = now();
  if (std::this_thread::get_id() == trainer_.load(std::memory_order_relaxed)) {
    waited_.fetch_add(end - last_.since.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }
  write(last_.version, [&] {
    last_.inside.store(false, kStore);
    last_.since.store(end, kStore);
  });
}

// After a failure the scope is still recorded, because leave(failed) keeps it for the report; a new
// scope replaces it. Words of detail beyond detail_bytes keep old content, which no reader uses.
bool CallRecord::enter(const char* what, std::string_view detail) {
  if (stretch_.what.load(std::memory_order_relaxed) != nullptr &&
      !failed_.load(std::memory_order_relaxed)) {
    return false;
  }
  failed_.store(false, std::memory_order_relaxed);
  const size_t bytes = std::min(detail.size(), kDetailWords * sizeof(uint64_t));
  write(stretch_.version, [&] {
    stretch_.what.store(what, kStore);
    for (size_t done = 0; done < bytes; done += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, detail.data() + done, std::min(sizeof(uint64_t), bytes - done));
      stretch_.detail[done / sizeof(uint64_t)].store(word, kStore);
    }
    stretch_.detail_bytes.store(detail.size(), kStore);
    stretch_.since.store(now(), kStore);
  });
  return true;
}

void CallRecord::leave(bool failed) {
  if (failed) {
    failed_.store(true, std::memory_order_relaxed);
    return;
  }
  write(stretch_.version, [&] {
    stretch_.what.store(nullptr, kStore);
    stretch_.since.store(now(), kStore);
  });
}

void CallRecord::read_last(CallView& view) const {
  CallWords words;
  int32_t type = -1;
  int64_t since = 0;
  read_whole(last_.version, [&] {
    view.number = last_.number.load(kLoad);
    words.what = last_.what.load(kLoad);
    words.count = last_.count.load(kLoad);
    type = last_.type.load(kLoad);
    words.root = last_.root.load(kLoad);
    view.in_call = last_.inside.load(kLoad);
    since = last_.since.load(kLoad);
  });
  if (type >= 0) {
    words.type = static_cast<torch::ScalarType>(type);
  }
  view.call = to_text(words);
  view.since = std::max(view.since, Clock::time_point(Clock::duration(since)));
}

void CallRecord::read_stretch(CallView& view) const {
  const char* what = nullptr;
  int64_t since = 0;
  uint64_t bytes = 0;
  std::array<uint64_t, kDetailWords> detail = {};
  read_whole(stretch_.version, [&] {
    what = stretch_.what.load(kLoad);
    since = stretch_.since.load(kLoad);
    bytes = stretch_.detail_bytes.load(kLoad);
    for (size_t i = 0; i < kDetailWords; ++i) {
      detail[i] = stretch_.detail[i].load(kLoad);
    }
  });
  view.since = std::max(view.since, Clock::time_point(Clock::duration(since)));
  if (what != nullptr) {
    view.scope = what;
    const size_t kept = std::min<size_t>(bytes, sizeof(detail));
    view.detail.assign(reinterpret_cast<const char*>(detail.data()), kept);
    if (kept < bytes) {
      view.detail += "...";
    }
  }
}

// The two sequence locks are read one after the other, so a view can combine a call and a scope
// that did not exist at the same time. `since` is the later of both times, and such a scope has
// changed after the call was read: the view is recent and never looks like a long wait. phase_ and
// failed_ are single words and need no lock.
CallView CallRecord::read() const {
  CallView view;
  read_last(view);
  read_stretch(view);
  view.phase = phase_.load(std::memory_order_relaxed);
  view.failed = failed_.load(std::memory_order_relaxed);
  return view;
}

}  // namespace lockstep::comm
