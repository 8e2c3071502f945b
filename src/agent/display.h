// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/collapse.h"
#include "agent/line_sink.h"
#include "agent/outlet.h"
#include "os/environment.h"

namespace lockstep::agent {

// What the user sees: the gang's lines on the launcher's own stdout and stderr, "[3]: " before each
// (nothing in a gang of one), identical lines of many ranks as one ("[0-7]: "), and on a terminal
// the newest status line below them.
//
// Never blocks; Outlet tells what becomes of a slow reader. A reader that has gone (a closed pipe)
// is no reason to stop a training; its text is dropped, the logs have it. One thread, which calls
// write_some() on every turn of its loop, at the latest after time_to_next().
class Display : public LineSink {
 public:
  struct Target {
    int fd = -1;
    Outlet::Kind kind = Outlet::Kind::Pipe;
  };
  struct Options {
    int world_size = 1;
    int columns = 80;
    bool has_colours = false;  // where there is a terminal
  };

  // The launcher's own stdout and stderr, with colours unless NO_COLOR or a dumb TERM forbids.
  static Display of_this_process(int world_size, const os::Environment& environment);

  // One descriptor for both streams, or two that lead to the same place, keep the streams' order.
  Display(Target out, Target err, const Options& options);

  // For a gang of another size in the next attempt.
  void set_world_size(int world_size);

  void take_lines(int rank, Stream stream, std::string_view lines) override;

  // Stays below the lines until the next one. Where many ranks draw bars, the lowest one's is
  // shown.
  void take_status(int rank, std::string_view text) override;
  void clear_status();

  // The launcher's own words, on stderr, behind what workers have said: "lockstep: TEXT"; whole
  // lines as they are. Never dropped.
  void say(std::string_view text);
  void show(std::string_view lines);

  // Shows what still waits for twins and tells of dropped lines: for the end.
  void flush();

  // Writes what the reader takes now.
  void write_some();

  // Forgets what is not written yet, and all that comes later.
  void give_up();

  // When write_some() has something to do again though no descriptor became ready.
  std::optional<std::chrono::milliseconds> time_to_next() const;

  // The descriptors that must become writable before write_some can go on; -1 when there is none.
  std::array<int, 2> waiting_fds() const;
  size_t waiting_bytes() const;

 private:
  using Clock = std::chrono::steady_clock;
  // What came in the window of time that runs.
  struct Meter {
    int64_t window = -1;
    size_t amount = 0;
  };

  Outlet& outlet(Stream stream);
  Outlet* screen();
  bool is_flood(int rank, size_t bytes, Clock::time_point now);
  std::string_view collapse_some(int rank, Stream stream, std::string_view lines);
  void show_ready(Clock::time_point now);
  void add_lines(Outlet& to, std::string_view prefix, std::string_view lines);
  std::string prefix(const RankSet& ranks, const Outlet& to) const;

  Options options_;
  Outlet out_;
  std::unique_ptr<Outlet> err_;  // absent where stderr leads to the same place as stdout
  Collapse collapse_;
  std::vector<Meter> meters_;  // bytes by rank
  Meter work_;                 // of comparing lines
  std::string status_;
  int status_rank_ = 0;
  Clock::time_point status_time_;
};

// As many characters of `text` as fit in `columns`; UTF-8, colours take no room.
std::string cut_to_columns(std::string_view text, int columns);

}  // namespace lockstep::agent
