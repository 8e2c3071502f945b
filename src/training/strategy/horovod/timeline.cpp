// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/timeline.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "common/base/log.h"
#include "lockstep/error.h"

namespace lockstep::strategy::horovod {
namespace {

// The Trace Event Format of Chrome (chrome://tracing, Perfetto), as Horovod writes it: a JSON array
// of events. Each tensor is a "process" (pid), so that it gets a row of its own:
//
//   {"ph":"M","pid":N,"name":"process_name","args":{"name":TENSOR}}   name of the row
//   {"ph":"B"/"E","pid":N,"ts":MICROSECONDS,"name":PHASE}             begin and end, nested
//   {"ph":"X","pid":N,"ts":..,"dur":0,"name":RANK}                    a rank is ready
//   {"ph":"i","s":"g",..,"name":"CYCLE_START"}                        start of a cycle
//
// Viewers accept an array without its closing bracket, as a killed process leaves it.
constexpr const char* kCycleRow = "cycles";

std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

Timeline::Timeline(std::filesystem::path path, bool mark_cycles)
    : path_(std::move(path)),
      mark_cycles_(mark_cycles),
      start_(std::chrono::steady_clock::now()),
      file_(path_, std::ios::trunc) {
  if (!file_) {
    throw Error(ExitCode::Io, fmt::format("cannot write the timeline {}", path_.string()))
        .fact("reason", std::strerror(errno), "system")
        .hint("--timeline-filename FILE in a directory that exists");
  }
  file_ << "[\n" << std::flush;
  writer_ = std::jthread([this] { write_all(); });
}

Timeline::~Timeline() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  more_.notify_one();
  writer_.join();
  file_ << "\n]\n" << std::flush;
  if (!file_) {
    log::warn("the timeline {} is incomplete: writing it failed", path_.string());
  }
}

void Timeline::begin(const std::string& tensor, std::string_view phase) {
  push(tensor, 'B', std::string(phase));
}

void Timeline::end(const std::string& tensor) {
  push(tensor, 'E', "");
}

void Timeline::tick(const std::string& tensor, int rank) {
  push(tensor, 'X', std::to_string(rank));
}

void Timeline::cycle() {
  if (mark_cycles_) {
    push(kCycleRow, 'i', "CYCLE_START");
  }
}

// Called by the thread of the engine, which must not wait for a disk: a thread of its own formats
// and writes.
void Timeline::push(const std::string& row, char kind, std::string name) {
  const auto passed = std::chrono::steady_clock::now() - start_;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(
        {row, kind, std::move(name), std::chrono::duration<double, std::micro>(passed).count()});
  }
  more_.notify_one();
}

void Timeline::write_all() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) {
      return;
    }
    std::vector<Event> events;
    events.swap(waiting_);
    lock.unlock();
    for (const Event& event : events) {
      write(event);
    }
    file_.flush();
    lock.lock();
  }
}

int Timeline::row_of(const std::string& name) {
  const auto [found, is_new] = rows_.emplace(name, static_cast<int>(rows_.size()));
  if (is_new) {
    file_ << fmt::format(R"({}{{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})",
                         is_first_ ? "" : ",\n",
                         found->second,
                         json_text(name));
    file_ << fmt::format(
        ",\n"
        R"({{"name":"process_sort_index","ph":"M","pid":{0},"args":{{"sort_index":{0}}}}})",
        found->second);
    is_first_ = false;
  }
  return found->second;
}

void Timeline::write(const Event& event) {
  const int row = row_of(event.row);
  file_ << fmt::format(
      R"(,{}{{"ph":"{}","pid":{},"tid":0,"ts":{:.3f})", "\n", event.kind, row, event.microseconds);
  // Chrome needs no name in an end event; other viewers, such as speedscope, match it by name.
  std::vector<std::string>& open = open_[row];
  std::string name = event.name;
  if (event.kind == 'B') {
    open.push_back(name);
  } else if (event.kind == 'E' && !open.empty()) {
    name = std::move(open.back());
    open.pop_back();
  }
  file_ << fmt::format(R"(,"name":{})", json_text(name));
  if (event.kind == 'X') {
    file_ << R"(,"dur":0)";
  } else if (event.kind == 'i') {
    file_ << R"(,"s":"g")";
  }
  file_ << "}";
}

}  // namespace lockstep::strategy::horovod
