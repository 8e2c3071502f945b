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

#include "agent/line_sink.h"
#include "agent/rank_set.h"

namespace lockstep::agent {

// Makes one line of identical lines of many ranks.
//
// A line waits at most kWindow for its twins, less when every rank has said it. Lines of one rank's
// stream never change their order; a line that others have said may move behind lines of other
// ranks, so that "rank 1 is here" between two common lines does not tear those apart. Memory is
// bounded: beyond kMostLines or kMostBytes the oldest stop waiting. The caller gives the time.
class Collapse {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kWindow{100};
  static constexpr size_t kMostLines = 8192;
  static constexpr size_t kMostBytes = size_t{4} << 20;

  struct Line {
    Stream stream = Stream::Out;
    std::string text;  // without its '\n'
    RankSet ranks;
  };

  explicit Collapse(int world_size) : world_size_(world_size) {}

  // How many make a line complete; for a gang of another size in the next attempt.
  void set_world_size(int world_size) { world_size_ = world_size; }

  void add(int rank, Stream stream, std::string_view text, Time now);

  // Ends the wait of what this rank has said on this stream, and of all before that; of everything.
  void release(int rank, Stream stream);
  void release_all();

  // The next line that need not wait any longer.
  std::optional<Line> find_ready(Time now);

  // How much work it was so far: lines that joined a twin, and eight times those that had none.
  size_t work() const { return work_; }

  // When the next line stops waiting, if one waits.
  std::optional<Time> next_time() const;

 private:
  struct Waiting {
    Line line;
    Time until;
    size_t hash = 0;
    uint64_t position = 0;  // the order in which lines are shown
  };
  // The last lines of one rank that still wait.
  struct Place {
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
  uint64_t ready_until_ = 0;  // all before this position are ready
  size_t bytes_ = 0;
  size_t work_ = 0;
  Time next_due_ = Time::max();                                // none is due before
  std::unordered_map<size_t, std::vector<Waiting*>> by_hash_;  // few of each
  std::vector<Place> places_;                                  // by rank
};

}  // namespace lockstep::agent
