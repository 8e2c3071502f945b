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

#include "launcher/cli/runs/runs.h"
#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/console/line_splitter.h"
#include "launcher/supervisor/console/rank_set.h"

// Reading and printing of logs for `lockstep logs`.
namespace lockstep::cli {

// Parses ranks such as "3" or "0,2-5"; throws an Error (64) with the text.
supervisor::RankSet parse_ranks(const std::string& text);

struct LogOptions {
  std::optional<supervisor::RankSet> ranks;  // absent: all
  std::optional<int> attempt;                // absent: the newest
  std::optional<size_t> last_lines;          // of each rank; absent: all
};

// The logs to show; choose_logs throws an Error (64) for an unknown attempt or rank.
struct LogChoice {
  int attempt = 0;
  std::vector<int> ranks;
  int world_size = 1;  // of the attempt, including ranks that are not shown
};
LogChoice choose_logs(const Run& run, const LogOptions& options);

// Passes the logs to `write` in the format of the console: "[3]: " before each line if there are
// several workers, and identical lines of many ranks merged into one. Logs have no timestamps, so
// the readers take turns line by line.
void print_logs(const contract::RunDirectory& run,
                const LogChoice& choice,
                std::optional<size_t> last_lines,
                const std::function<void(std::string_view)>& write);

// Follows the growing logs of one attempt.
class LogFollower {
 public:
  // Starts `last_lines` lines before the current end of each log; absent: at the beginning.
  LogFollower(contract::RunDirectory run,
              int attempt,
              std::optional<supervisor::RankSet> ranks,
              std::optional<size_t> last_lines);

  // Reads new bytes of each log once and passes complete lines to the sink; false: nothing new.
  bool read(supervisor::LineSink& sink);

  // Passes on last lines without a final newline; to be called after the end of the run.
  void finish(supervisor::LineSink& sink);

  int attempt() const { return attempt_; }

 private:
  struct Log {
    std::filesystem::path path;
    uint64_t offset = 0;
    supervisor::LineSplitter splitter;
  };
  void open_new_logs();

  contract::RunDirectory run_;
  int attempt_;
  std::optional<supervisor::RankSet> ranks_;
  std::optional<size_t> last_lines_;
  std::map<int, Log> logs_;  // by rank
};

// The offset at which the last `lines` lines of a file begin.
uint64_t find_last_lines(const std::filesystem::path& path, size_t lines);

}  // namespace lockstep::cli
