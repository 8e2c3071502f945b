// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/console/rank_set.h"

namespace lockstep::supervisor {

// Merges identical lines of several ranks into one.
//
// A line waits at most kWindow for identical lines (twins), and not at all once every rank has
// written it. The lines of one stream of one rank keep their order. A line may move behind lines of
// other ranks, so that "rank 1 is here" between two common lines does not prevent their merge.
// Memory is bounded: beyond kMaxLines or kMaxBytes the oldest lines stop waiting. The caller
// passes the time. Not thread-safe.
class LineMerger {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kWindow{100};
  static constexpr size_t kMaxLines = 8192;
  static constexpr size_t kMaxBytes = size_t{4} << 20;

  struct Line {
    Stream stream = Stream::Out;
    std::string text;  // without the final '\n'
    RankSet ranks;
  };

  explicit LineMerger(int world_size) : world_size_(world_size) {}

  // The number of ranks that complete a line. Changes if the next attempt has another world size.
  void set_world_size(int world_size) { world_size_ = world_size; }

  void add(int rank, Stream stream, std::string_view text, Time now);

  // Ends the wait of the lines of this rank on this stream and of all lines before them; of all
  // lines.
  void release(int rank, Stream stream);
  void release_all();

  // The next line that has stopped waiting.
  std::optional<Line> find_ready(Time now);

  // A measure of the work so far: 1 per merged line, and 8 more per new line.
  size_t work() const { return work_; }

  // The time at which the next line stops waiting, if one waits.
  std::optional<Time> next_time() const;

 private:
  struct Waiting {
    Line line;
    Time until;
    size_t hash = 0;
    uint64_t position = 0;  // lines are shown in the order of their positions
  };
  // The last waiting line of one rank, per stream.
  struct LastWaiting {
    Waiting* out = nullptr;
    Waiting* err = nullptr;
  };

  Waiting*& last_of(int rank, Stream stream);
  Waiting& at(uint64_t position) { return *waiting_[position - first_]; }
  Waiting* find_twin(const Waiting* last, Stream stream, std::string_view text, size_t hash);
  bool move_behind(Waiting& twin, const Waiting& last);
  Waiting& append(Stream stream, std::string_view text, size_t hash, Time now);
  void end_due_waits(Time now);
  Line take_front();
  void forget(const Waiting& one);

  int world_size_;
  std::deque<std::unique_ptr<Waiting>> waiting_;
  uint64_t first_ = 0;        // position of waiting_.front()
  uint64_t ready_until_ = 0;  // lines before this position are ready
  size_t bytes_ = 0;
  size_t work_ = 0;
  Time next_due_ = Time::max();                                // no line is due before
  std::unordered_map<size_t, std::vector<Waiting*>> by_hash_;  // at most kMaxTextLength each
  std::vector<LastWaiting> last_waiting_;                      // by rank
};

}  // namespace lockstep::supervisor
