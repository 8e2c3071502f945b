// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/logs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/pipe.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/runs/job_logs.h"
#include "launcher/cli/runs/jobs.h"
#include "launcher/cli/runs/status.h"
#include "launcher/cli/subcommands.h"
#include "launcher/supervisor/console/display.h"
#include "launcher/supervisor/console/line_merger.h"
#include "lockstep/error.h"

// Two readers of the same files:
//
//   print_logs    once: readers take turns, one line each, so that equal lines of many ranks meet
//                 in the LineMerger although the files have no times
//   LogFollower   again and again, with offsets: only new bytes are read
//
// Both open a file for each chunk instead of keeping thousands of descriptors. Logs of an attempt
// only grow; a restart writes into the directory of the next attempt.
namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr const char* kDescription =
    "Show the output of the workers of a run\n"
    "\n"
    "Usage:\n"
    "  lockstep logs [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN is a run directory or a name below ./runs. Lines look as on the console of\n"
    "the run: each begins with its rank, '[3]: ', and identical lines of many ranks\n"
    "are merged into one. The command works on every node that can access the run\n"
    "directory. JOBID is a Slurm job: shows the logs of its run, or the output files\n"
    "of the job if it has no run.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep logs -f\n"
    "  lockstep logs --rank 0,4-7 -n 20 train-20240131-093000-1a2b\n"
    "  lockstep logs -f 4711\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  64   unknown run, job, attempt or rank\n"
    "  69   Slurm is not installed or does not respond\n"
    "  74   a log could not be read\n"
    "  130  Ctrl-C while waiting for a job; the job continues\n"
    "\n"
    "Files:\n"
    "  RUN/logs/attempt-A/rank-R.log    stdout and stderr of one worker\n";

constexpr size_t kChunkBytes = size_t{1} << 16;

// At most kChunkBytes of a file from `offset` on; empty at the end or if the file does not exist
// yet.
std::string read_chunk(const fs::path& path, uint64_t offset) {
  std::error_code fault;
  const uint64_t size = fs::file_size(path, fault);
  if (fault || size <= offset) {
    return "";
  }
  std::string chunk(std::min<uint64_t>(size - offset, kChunkBytes), '\0');
  os::InputFile(path).read(offset, chunk.data(), chunk.size());
  return chunk;
}

// Reads one log line by line. buffer_ has unread bytes from at_ on. Consumed bytes are erased only
// when the next chunk is read, so the view that find_line() returns stays valid until then.
class LineReader {
 public:
  LineReader(int rank, fs::path path, uint64_t offset)
      : rank_(rank), path_(std::move(path)), offset_(offset) {}

  int rank() const { return rank_; }

  // The next line without its '\n'; valid until the next call.
  std::optional<std::string_view> find_line() {
    size_t end = buffer_.find('\n', at_);
    while (end == std::string::npos && !is_at_end_) {
      buffer_.erase(0, std::exchange(at_, 0));
      const size_t searched = buffer_.size();
      const std::string chunk = read_chunk(path_, offset_);
      is_at_end_ = chunk.empty();
      offset_ += chunk.size();
      buffer_ += chunk;
      end = buffer_.find('\n', searched);
    }
    if (at_ == buffer_.size()) {
      return std::nullopt;
    }
    const size_t begin = std::exchange(at_, end == std::string::npos ? buffer_.size() : end + 1);
    return std::string_view(buffer_).substr(begin, end == std::string::npos ? end : end - begin);
  }

 private:
  int rank_;
  fs::path path_;
  uint64_t offset_;
  std::string buffer_;
  size_t at_ = 0;
  bool is_at_end_ = false;
};

int parse_rank(const std::string& word, const std::string& text) {
  const auto number = find_integer(word);
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --rank", text))
        .fact("found", fmt::format("'{}', which is not a rank", word), "command line")
        .hint("--rank 0,4-7");
  }
  return static_cast<int>(*number);
}

}  // namespace

supervisor::RankSet parse_ranks(const std::string& text) {
  constexpr int kMaxRanks = 10000000;
  supervisor::RankSet ranks;
  for (const std::string& piece : split(text, ',')) {
    const size_t dash = piece.find('-');
    const int first = parse_rank(piece.substr(0, dash), text);
    const int last = dash == std::string::npos ? first : parse_rank(piece.substr(dash + 1), text);
    if (last < first || last - first > kMaxRanks) {
      throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --rank", text))
          .fact("found", fmt::format("'{}', which is not a range of ranks", piece), "command line")
          .hint("--rank 0,4-7");
    }
    for (int rank = first; rank <= last; ++rank) {
      ranks.insert(rank);
    }
  }
  return ranks;
}

// The world size decides whether lines get a "[rank]: " prefix. The largest log number is a lower
// bound while the workers start; the state has the exact value for the current attempt.
LogChoice choose_logs(const Run& run, const LogOptions& options) {
  const std::vector<int> attempts = run.directory.find_attempts();
  if (attempts.empty()) {
    throw Error(ExitCode::Usage, fmt::format("{} has no logs", run.name))
        .fact("searched", (run.directory.root() / "logs").string())
        .hint(fmt::format("lockstep status {}", run.name));
  }
  LogChoice choice{
      .attempt = options.attempt.value_or(attempts.back()), .ranks = {}, .world_size = 1};
  if (std::find(attempts.begin(), attempts.end(), choice.attempt) == attempts.end()) {
    throw Error(ExitCode::Usage, fmt::format("{} has no attempt {}", run.name, choice.attempt))
        .fact("available", fmt::format("attempts {}", fmt::join(attempts, ", ")), "RUN/logs")
        .hint(fmt::format("--attempt {}", attempts.back()));
  }
  const std::vector<int> ranks = run.directory.find_logged_ranks(choice.attempt);
  supervisor::RankSet known;
  for (const int rank : ranks) {
    known.insert(rank);
    if (!options.ranks || options.ranks->contains(rank)) {
      choice.ranks.push_back(rank);
    }
  }
  if (options.ranks && choice.ranks.empty()) {
    throw Error(ExitCode::Usage,
                fmt::format("{} has no rank {}", run.name, supervisor::to_string(*options.ranks)))
        .fact("available", fmt::format("ranks {}", supervisor::to_string(known)), "RUN/logs")
        .hint(fmt::format("--rank {}", supervisor::to_string(known)));
  }
  choice.world_size = ranks.empty() ? 1 : ranks.back() + 1;
  if (run.state && run.state->attempt == choice.attempt) {
    choice.world_size = std::max(choice.world_size, run.state->world_size);
  }
  return choice;
}

// Searches backwards in blocks, so the cost depends on the lines that are shown, not on the size of
// the log.
uint64_t find_last_lines(const fs::path& path, size_t lines) {
  std::error_code fault;
  const uint64_t size = fs::file_size(path, fault);
  if (fault || size == 0 || lines == 0) {
    return fault ? 0 : size;
  }
  const os::InputFile file(path);
  std::array<char, kChunkBytes> block{};
  size_t ends = 0;
  for (uint64_t end = size; end > 0;) {
    const uint64_t begin = end - std::min<uint64_t>(end, block.size());
    file.read(begin, block.data(), static_cast<size_t>(end - begin));
    for (uint64_t at = end; at > begin; --at) {
      // A newline at the very end of the file does not begin another line.
      if (block.at(static_cast<size_t>(at - 1 - begin)) == '\n' && at != size && ++ends == lines) {
        return at;
      }
    }
    end = begin;
  }
  return 0;
}

// One turn takes one line from each log. A reader without further lines is removed, so a short log
// does not delay the others. Output is collected into chunks, because a write per line would
// dominate the time for large logs.
void print_logs(const contract::RunDirectory& run,
                const LogChoice& choice,
                std::optional<size_t> last_lines,
                const std::function<void(std::string_view)>& write) {
  // The time is constant, so that a line waits for equal lines until the buffer is full.
  constexpr supervisor::LineMerger::Time kNow{};
  std::vector<LineReader> readers;
  for (const int rank : choice.ranks) {
    const fs::path path = run.log(choice.attempt, rank);
    readers.emplace_back(rank, path, last_lines ? find_last_lines(path, *last_lines) : 0);
  }
  supervisor::LineMerger merger(static_cast<int>(choice.ranks.size()));
  std::string text;
  const auto show_ready = [&] {
    while (const auto line = merger.find_ready(kNow)) {
      if (choice.world_size > 1) {
        text += fmt::format("[{}]: ", supervisor::to_string(line->ranks));
      }
      text += line->text;
      text += '\n';
      if (text.size() >= kChunkBytes) {
        write(text);
        text.clear();
      }
    }
  };
  while (!readers.empty()) {
    std::erase_if(readers, [&](LineReader& reader) {
      const auto line = reader.find_line();
      if (line) {
        merger.add(reader.rank(), supervisor::Stream::Out, *line, kNow);
      }
      return !line;
    });
    show_ready();
  }
  merger.release_all();
  show_ready();
  write(text);
}

// The offset is determined once, when the follower starts. Lines that are written between this
// moment and the first read() are therefore shown.
LogFollower::LogFollower(contract::RunDirectory run,
                         int attempt,
                         std::optional<supervisor::RankSet> ranks,
                         std::optional<size_t> last_lines)
    : run_(std::move(run)), attempt_(attempt), ranks_(std::move(ranks)), last_lines_(last_lines) {
  open_new_logs();
  last_lines_.reset();  // a log that appears later is read from its beginning
}

void LogFollower::open_new_logs() {
  for (const int rank : run_.find_logged_ranks(attempt_)) {
    if (logs_.contains(rank) || (ranks_ && !ranks_->contains(rank))) {
      continue;
    }
    const fs::path path = run_.log(attempt_, rank);
    logs_[rank] = {.path = path,
                   .offset = last_lines_ ? find_last_lines(path, *last_lines_) : 0,
                   .splitter = {}};
  }
}

// One chunk of each log per call. A rank that writes a lot cannot keep the others from being shown.
bool LogFollower::read(supervisor::LineSink& sink) {
  open_new_logs();
  bool is_news = false;
  for (auto& [rank, log] : logs_) {
    const std::string chunk = read_chunk(log.path, log.offset);
    log.offset += chunk.size();
    is_news = is_news || !chunk.empty();
    for (const std::string_view lines : log.splitter.feed(chunk).lines) {
      if (!lines.empty()) {
        sink.take_lines(rank, supervisor::Stream::Out, lines);
      }
    }
  }
  return is_news;
}

void LogFollower::finish(supervisor::LineSink& sink) {
  for (auto& [rank, log] : logs_) {
    const std::string rest = log.splitter.finish();
    if (!rest.empty()) {
      sink.take_lines(rank, supervisor::Stream::Out, rest);
    }
  }
}

namespace {

// Blocks until at most `maximum` bytes wait to be written to stdout and stderr. A slow terminal or
// pipe must slow down the reader, or a log of gigabytes would be queued in memory.
void drain(supervisor::Display& display, size_t maximum) {
  display.write_some();
  while (display.waiting_bytes() > maximum) {
    std::array<os::Watch, 2> watches{};
    for (size_t i = 0; i < watches.size(); ++i) {
      watches.at(i) = {.fd = display.waiting_fds().at(i), .for_write = true};
    }
    os::wait_for(watches, std::nullopt);
    display.write_some();
  }
}

// Whether the run has ended or its launcher no longer responds.
bool is_over(const contract::RunDirectory& run) {
  const auto state = contract::find_state(run);
  return !state || contract::sign_of(*state, wall_time()) != contract::Sign::Alive;
}

void pause(const supervisor::Display& display) {
  constexpr milliseconds kPause(200);
  std::this_thread::sleep_for(std::min(kPause, display.time_to_next().value_or(kPause)));
}

// Shows all attempts, one after the other, until the run ends. The loop has to notice three things:
// new output, a new attempt, and the end of the run. The end is checked first and acted upon last,
// so whatever was written before the end is shown. With --attempt, the end of that attempt (the
// next one exists) is the end.
class Follower {
 public:
  Follower(const Run& run, const LogOptions& options)
      : run_(run),
        options_(options),
        display_(supervisor::Display::of_this_process(1, os::environment())) {}

  void follow() {
    while (run_.directory.find_attempts().empty() && !is_over(run_.directory)) {
      pause(display_);
    }
    begin(choose_logs(read_run(run_.directory.root()), options_), options_.last_lines);
    for (;;) {
      // Check for the end before reading: output that precedes the end is then always read.
      const bool is_last_look = is_over(run_.directory);
      read_all();
      const auto next = find_next_attempt();
      if (next && !options_.attempt) {
        logs_->finish(display_);
        display_.say(fmt::format("attempt {}", *next));
        LogOptions of_next = options_;
        of_next.attempt = next;
        begin(choose_logs(read_run(run_.directory.root()), of_next), std::nullopt);
      } else if (is_last_look || next) {
        break;
      } else {
        pause(display_);
      }
    }
    logs_->finish(display_);
    tell_end();
    display_.flush();
    drain(display_, 0);
  }

 private:
  void begin(const LogChoice& choice, std::optional<size_t> last_lines) {
    display_.set_world_size(choice.world_size);
    logs_ =
        std::make_unique<LogFollower>(run_.directory, choice.attempt, options_.ranks, last_lines);
  }

  void read_all() {
    constexpr size_t kEnough = size_t{1} << 20;
    while (logs_->read(display_)) {
      drain(display_, kEnough);
    }
    drain(display_, kEnough);
  }

  std::optional<int> find_next_attempt() const {
    const std::vector<int> attempts = run_.directory.find_attempts();
    const auto next = std::upper_bound(attempts.begin(), attempts.end(), logs_->attempt());
    return next == attempts.end() ? std::nullopt : std::optional(*next);
  }

  void tell_end() {
    const Run now = read_run(run_.directory.root());
    if (now.state && !options_.attempt) {
      const bool is_end = contract::is_end(now.state->phase);
      display_.say(fmt::format("{} {}: {}",
                               now.name,
                               is_end ? "has ended" : "is no longer followed",
                               state_sentence(now, wall_time())));
    }
  }

  const Run& run_;
  const LogOptions& options_;
  supervisor::Display display_;
  std::unique_ptr<LogFollower> logs_;
};

int parse_count(const std::string& option, const std::string& text) {
  const auto number = find_integer(text);
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for {}", text, option))
        .fact("expected", "an integer, 0 or more")
        .hint(fmt::format("{} 20", option));
  }
  return static_cast<int>(*number);
}

struct LogArguments {
  std::string run;
  bool is_following = false;
  std::optional<std::string> ranks;
  std::optional<std::string> attempt;
  std::optional<std::string> lines;
};

// The output files of a job do not show which rank has written a line.
void refuse_choice(const LogArguments& arguments) {
  if (arguments.ranks || arguments.attempt) {
    throw Error(ExitCode::Usage,
                fmt::format("{} requires a lockstep run, and job {} has none",
                            arguments.ranks ? "--rank" : "--attempt",
                            arguments.run))
        .fact("found", "no run of this job", "runs")
        .hint(fmt::format("lockstep logs {}", arguments.run));
  }
}

void show_run(const Run& run, const LogArguments& arguments, const LogOptions& options) {
  if (arguments.is_following) {
    Follower(run, options).follow();
    return;
  }
  print_logs(
      run.directory, choose_logs(run, options), options.last_lines, [](std::string_view text) {
        os::write_output(text);
      });
}

// Returns the exit code of the command.
int show_job(const LogArguments& arguments, const LogOptions& options) {
  const slurm::Client client(os::environment());
  const JobArgument job = job_named(client, arguments.run, fs::current_path());
  if (job.run && !job.run->directory.find_attempts().empty()) {
    show_run(*job.run, arguments, options);
    return 0;
  }
  refuse_choice(arguments);
  if (arguments.is_following) {
    return follow_job_logs(job, options.last_lines);
  }
  print_job_logs(job, options.last_lines);
  return 0;
}

int show(const LogArguments& arguments) {
  LogOptions options;
  if (arguments.ranks) {
    options.ranks = parse_ranks(*arguments.ranks);
  }
  if (arguments.attempt) {
    options.attempt = parse_count("--attempt", *arguments.attempt);
  }
  if (arguments.lines) {
    options.last_lines = static_cast<size_t>(parse_count("-n", *arguments.lines));
  }
  if (means_job(arguments.run, fs::current_path())) {
    return show_job(arguments, options);
  }
  show_run(run_named(arguments.run, fs::current_path()), arguments, options);
  return 0;
}

}  // namespace

void add_logs(CLI::App& app, Call& call) {
  auto arguments = std::make_shared<LogArguments>();
  CLI::App* logs = app.add_subcommand("logs", kDescription);
  logs->footer(kFooter);
  logs->add_option("RUN", arguments->run, "Run or job [newest run below ./runs]");
  logs->add_flag("-f,--follow", arguments->is_following, "Follow the run or job until it ends");
  logs->add_option("--rank", arguments->ranks, "Show only these ranks: 0,4-7")->type_name("RANKS");
  logs->add_option("--attempt", arguments->attempt, "Show this attempt")
      ->type_name("NUMBER")
      ->default_str("newest");
  logs->add_option("-n,--lines", arguments->lines, "Show only the last lines of each rank")
      ->type_name("COUNT")
      ->default_str("all");
  logs->callback([arguments, &call] { call.exit_code = show(*arguments); });
}

}  // namespace lockstep::cli
