// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/line_sink.h"
#include "agent/line_splitter.h"
#include "agent/rank_set.h"
#include "cli/runs.h"

// What `lockstep logs` reads and shows.
namespace lockstep::cli {

// "3", "0,2-5"; throws an Error (64) that quotes the text.
agent::RankSet parse_ranks(const std::string& text);

struct LogWishes {
  std::optional<agent::RankSet> ranks;  // absent: all
  std::optional<int> attempt;           // absent: the newest
  std::optional<size_t> last_lines;     // of each rank; absent: all
};

// Which logs of a run are meant; throws an Error (64) when there is no such attempt or rank.
struct LogChoice {
  int attempt = 0;
  std::vector<int> ranks;
  int world_size = 1;  // of the attempt, whichever ranks are meant
};
LogChoice choose_logs(const Run& run, const LogWishes& wishes);

// Gives `write` the logs as the console has shown them: "[3]: " before each line of a gang,
// identical lines of many ranks as one. Line by line in turn, as logs have no times.
void print_logs(const contract::RunDirectory& run,
                const LogChoice& choice,
                std::optional<size_t> last_lines,
                const std::function<void(std::string_view)>& write);

// Reads what logs of one attempt have gained.
class LogFollower {
 public:
  // Starts `last_lines` before the end of what is there; absent: at the beginning.
  LogFollower(contract::RunDirectory run,
              int attempt,
              std::optional<agent::RankSet> ranks,
              std::optional<size_t> last_lines);

  // Reads new bytes of each log once; false when there were none. Whole lines go to the sink.
  bool read(agent::LineSink& sink);

  // Gives the last lines without '\n', when nobody writes any more.
  void finish(agent::LineSink& sink);

  int attempt() const { return attempt_; }

 private:
  struct Log {
    std::filesystem::path path;
    uint64_t offset = 0;
    agent::LineSplitter splitter;
  };
  void find_new_logs();

  contract::RunDirectory run_;
  int attempt_;
  std::optional<agent::RankSet> ranks_;
  std::optional<size_t> last_lines_;
  std::map<int, Log> logs_;  // by rank
};

// Where the last `lines` lines of a file begin.
uint64_t find_last_lines(const std::filesystem::path& path, size_t lines);

}  // namespace lockstep::cli
