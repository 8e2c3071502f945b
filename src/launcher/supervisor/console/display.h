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

#include "common/os/environment.h"
#include "launcher/supervisor/console/line_merger.h"
#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/console/output_buffer.h"

namespace lockstep::supervisor {

// The console output of a run: the lines of the workers on stdout and stderr of the launcher, with
// the prefix "[3]: " (none if there is one worker), identical lines of several ranks as one
// ("[0-7]: "), and on a terminal the newest status line below them.
//
// Never blocks; OutputBuffer describes what happens with a slow reader. If the reader has closed
// the pipe, the text is dropped and the run continues; the log files are complete. Not thread-safe.
// The caller calls write_some() in every turn of its event loop, at the latest after
// time_to_next().
class Display : public LineSink {
 public:
  struct Target {
    int fd = -1;
    OutputBuffer::Kind kind = OutputBuffer::Kind::Pipe;
  };
  struct Options {
    int world_size = 1;
    int columns = 80;
    bool has_colours = false;  // on a terminal
  };

  // stdout and stderr of this process, in colour unless NO_COLOR or TERM=dumb is set.
  static Display of_this_process(int world_size, const os::Environment& environment);

  // If both descriptors refer to the same file, pipe or terminal, the order of the two streams is
  // kept.
  Display(Target out, Target err, const Options& options);

  // For the next attempt, which may have another world size.
  void set_world_size(int world_size);

  void take_lines(int rank, Stream stream, std::string_view lines) override;

  // Shows a status line below all other lines until the next one. If several ranks draw progress
  // bars, the one of the lowest rank is shown.
  void take_status(int rank, std::string_view text) override;
  void clear_status();

  // Messages of the launcher, on stderr, behind all output of workers that has arrived. say()
  // prints "lockstep: TEXT", show() prints whole lines unchanged. Never dropped.
  void say(std::string_view text);
  void show(std::string_view lines);

  // Shows the lines that wait for identical ones, and reports dropped lines. For the end of a run.
  void flush();

  // Writes as much as the reader accepts now.
  void write_some();

  // Discards the unwritten output and all further output.
  void give_up();

  // Time until write_some() must be called even if no descriptor is ready.
  std::optional<std::chrono::milliseconds> time_to_next() const;

  // The descriptors that must become writable before write_some() can continue; -1: none.
  std::array<int, 2> waiting_fds() const;
  size_t waiting_bytes() const;

 private:
  using Clock = std::chrono::steady_clock;
  // The amount in the current time window.
  struct Meter {
    int64_t window = -1;
    size_t amount = 0;
  };

  OutputBuffer& outlet(Stream stream);
  OutputBuffer* screen();
  bool is_flood(int rank, size_t bytes, Clock::time_point now);
  std::string_view collapse_some(int rank, Stream stream, std::string_view lines);
  void show_ready(Clock::time_point now);
  void add_lines(OutputBuffer& to, std::string_view prefix, std::string_view lines);
  std::string prefix(const RankSet& ranks, const OutputBuffer& to) const;

  Options options_;
  OutputBuffer out_;
  std::unique_ptr<OutputBuffer> err_;  // absent if stderr is the same file as stdout
  LineMerger merger_;
  std::vector<Meter> meters_;  // bytes by rank
  Meter work_;                 // of comparing lines
  std::string status_;
  int status_rank_ = 0;
  Clock::time_point status_time_;
};

// Cuts UTF-8 text to `columns` characters. Escape sequences take no room.
std::string cut_to_columns(std::string_view text, int columns);

}  // namespace lockstep::supervisor
