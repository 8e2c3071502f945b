// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/site.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "common/contract/run_state.h"
#include "common/os/growing_file.h"
#include "launcher/monitor/event_store.h"
#include "launcher/monitor/heat.h"
#include "launcher/monitor/log_page.h"
#include "launcher/monitor/page_files.h"
#include "launcher/monitor/prometheus.h"
#include "launcher/monitor/run_json.h"
#include "lockstep/error.h"

// Threads and locks:
//
//   follower_            polls all runs, one after the other, every `pause_`
//   threads of httplib   call answer() and wait_for_news()
//
// - Followed::mutex protects the store of one run, so a request for one run does not wait for the
//   poll of another.
// - Site::mutex_ protects no data except the increment of version_. It exists for the condition
//   variable news_, and is never held together with a Followed::mutex.
// - runs_ itself is constant after the constructor and needs no lock.
//
// The size of a response is limited (kMaxPoints, kMaxColumns), because the store is locked while
// it is built.
namespace lockstep::monitor {
namespace {

constexpr size_t kMaxPoints = 2048;
constexpr size_t kMaxColumns = 120;
constexpr int64_t kMaxLogLines = 5000;
constexpr double kForever = std::numeric_limits<double>::infinity();

// A request that cannot be answered: an HTTP status and one sentence.
struct Refusal {
  int status;
  std::string sentence;
};

std::optional<std::string> find_word(const Parameters& parameters, const std::string& name) {
  const auto found = parameters.find(name);
  return found == parameters.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int64_t> find_whole(const Parameters& parameters,
                                  const std::string& name,
                                  int64_t maximum = std::numeric_limits<int64_t>::max()) {
  const auto word = find_word(parameters, name);
  if (!word) {
    return std::nullopt;
  }
  const auto number = find_integer(*word);
  if (!number || *number < 0 || *number > maximum) {
    throw Refusal{
        400, fmt::format("invalid {} '{}': must be an integer from 0 to {}", name, *word, maximum)};
  }
  return number;
}

double time_of(const Parameters& parameters, const std::string& name, double fallback) {
  const auto word = find_word(parameters, name);
  if (!word) {
    return fallback;
  }
  double time = 0;
  const auto [end, fault] = std::from_chars(word->data(), word->data() + word->size(), time);
  if (fault != std::errc() || end != word->data() + word->size()) {
    throw Refusal{400, fmt::format("invalid {} '{}': must be in seconds since 1970", name, *word)};
  }
  return time;
}

std::string type_of(std::string_view name) {
  return name.ends_with(".js")    ? "text/javascript; charset=utf-8"
         : name.ends_with(".css") ? "text/css; charset=utf-8"
                                  : "text/html; charset=utf-8";
}

// Only names in the list of embedded files match, so a path such as /../secret cannot reach a file.
std::optional<Answer> find_page_file(const std::string& path) {
  if (!path.starts_with('/')) {
    return std::nullopt;
  }
  const std::string_view name = path == "/" ? "index.html" : std::string_view(path).substr(1);
  for (const PageFile& file : page_files()) {
    if (file.name == name) {
      return Answer{.type = type_of(name), .body = std::string(file.bytes)};
    }
  }
  return std::nullopt;
}

// The phase of the run ("running"), or "lost" if its launcher no longer exists. Reads the state
// file on every call, in addition to the store. A launcher that was killed writes nothing more, so
// its end is visible only by comparing the state with the current time; no change of a file
// announces it.
std::string status_of(const contract::RunDirectory& directory) {
  try {
    const auto state = contract::find_state(directory);
    if (!state) {
      const bool is_ours = os::find_look(directory.plan()).has_value();
      return !is_ours && directory.has_events() ? kNotOurs : "not started";
    }
    const contract::Sign sign = contract::sign_of(*state, wall_time());
    const bool is_lost = sign == contract::Sign::Gone || sign == contract::Sign::Silent;
    return is_lost ? "lost" : std::string(contract::name_of(state->phase));
  } catch (const Error& error) {
    return error.sentence();
  }
}

// Whether to list a series. Series of ranks and nodes can be requested by name but are not listed,
// because there may be thousands.
bool is_of_the_run(const std::string& series) {
  return !series.starts_with("rank/") && !series.starts_with("node/");
}

}  // namespace

struct Site::Followed {
  RunName name() const {
    return {.id = id,
            .name = shown.name,
            .directory = shown.directory.root().string(),
            .status = status_of(shown.directory)};
  }

  std::string id;
  ShownRun shown;
  std::mutex mutex;  // of the store
  EventStore store;
  std::string status = {};
};

// The thread starts last, when all members are complete.
Site::Site(std::vector<ShownRun> runs, std::chrono::milliseconds pause) : pause_(pause) {
  for (ShownRun& run : runs) {
    EventStore store(run.directory);
    // NOLINTNEXTLINE(modernize-make-unique): it is an aggregate
    runs_.push_back(std::unique_ptr<Followed>(new Followed{.id = std::to_string(runs_.size()),
                                                           .shown = std::move(run),
                                                           .mutex = {},
                                                           .store = std::move(store)}));
  }
  follower_ = std::jthread([this](const std::stop_token& stop) { follow(stop); });
}

// follower_ is the last member, so it is destroyed, and joined, first: the thread never sees a
// destroyed member. The stop request also ends every wait_for_news(), because it waits with the
// same token. The HTTP server that calls it must already be gone.
Site::~Site() {
  follower_.request_stop();
  news_.notify_all();
}

// The predicate is always false: this wait is a sleep that the stop request interrupts.
void Site::follow(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    poll();
    std::unique_lock lock(mutex_);
    news_.wait_for(lock, stop, pause_, [] { return false; });
  }
}

// Increments the version while holding mutex_. Without the lock, the increment could fall between
// the check and the sleep of a waiting thread, which would then miss the notification.
void Site::poll() {
  bool is_news = false;
  for (const auto& run : runs_) {
    const std::string status = status_of(run->shown.directory);
    const std::lock_guard lock(run->mutex);
    try {
      is_news = run->store.poll() || is_news;
    } catch (const Error& error) {
      log::warn("dashboard: {}", error.sentence());
    }
    is_news = is_news || status != run->status;
    run->status = status;
  }
  if (is_news) {
    const std::lock_guard lock(mutex_);
    ++version_;
    news_.notify_all();
  }
}

// Can return a version that does not exceed `seen`: after `patience`, or when the site is
// destroyed.
uint64_t Site::wait_for_news(uint64_t seen, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  news_.wait_for(lock, follower_.get_stop_token(), patience, [&] { return version_ > seen; });
  return version_;
}

Answer Site::answer(const std::string& path, const Parameters& parameters) {
  try {
    return dispatch(path, parameters);
  } catch (const Refusal& refusal) {
    return {.status = refusal.status, .type = "text/plain", .body = refusal.sentence + "\n"};
  } catch (const Error& error) {
    return {.status = 500, .type = "text/plain", .body = error.sentence() + "\n"};
  }
}

// The id of a run is its index in runs_; without an id, the first run is meant.
Site::Followed& Site::run_of(const Parameters& parameters) {
  const auto id = find_whole(parameters, "run");
  if (id && static_cast<size_t>(*id) >= runs_.size()) {
    throw Refusal{404,
                  fmt::format("run {} does not exist (number of runs: {})", *id, runs_.size())};
  }
  return *runs_.at(static_cast<size_t>(id.value_or(0)));
}

Answer Site::dispatch(const std::string& path, const Parameters& parameters) {
  if (auto file = find_page_file(path)) {
    return *file;
  }
  if (path == "/metrics") {
    return metrics(parameters);
  }
  if (path == "/api/runs") {
    return runs();
  }
  if (path == "/api/logs") {
    return log(run_of(parameters), parameters);
  }
  if (path == "/api/snapshot") {
    return snapshot(run_of(parameters));
  }
  if (path == "/api/marks") {
    Followed& run = run_of(parameters);
    const std::lock_guard lock(run.mutex);
    return {.body = marks_json(run.store.marks())};
  }
  if (path == "/api/heat") {
    Followed& run = run_of(parameters);
    const std::lock_guard lock(run.mutex);
    std::vector<int> ranks;
    for (const RankView& rank : run.store.snapshot().ranks) {
      ranks.push_back(rank.rank);
    }
    return {.body = heat_json(make_heat(run.store, ranks, kMaxColumns))};
  }
  if (path == "/api/series") {
    const auto name = find_word(parameters, "name");
    if (!name) {
      throw Refusal{400, "the parameter name is missing: /api/series?name=loss"};
    }
    const double from = time_of(parameters, "from", -kForever);
    const double to = time_of(parameters, "to", kForever);
    const auto points =
        static_cast<size_t>(find_whole(parameters, "points", kMaxPoints).value_or(kMaxPoints));
    Followed& run = run_of(parameters);
    const std::lock_guard lock(run.mutex);
    return {.body = series_json(*name, run.store.series(*name, from, to, points))};
  }
  throw Refusal{404, fmt::format("{} does not exist", path)};
}

Answer Site::runs() {
  std::vector<RunName> names;
  for (const auto& run : runs_) {
    names.push_back(run->name());
  }
  return {.body = runs_json(names)};
}

Answer Site::snapshot(Followed& run) {
  const RunName name = run.name();
  const std::lock_guard lock(run.mutex);
  std::vector<std::string> series = run.store.series_names();
  std::erase_if(series, [](const std::string& one) { return !is_of_the_run(one); });
  return {.body = snapshot_json(name, run.store.snapshot(), series)};
}

// All runs on one page. Prometheus rejects duplicate label sets, so the label `run` must be unique:
// a directory that was given twice is shown once, and a copy of a run is labelled by its directory.
Answer Site::metrics(const Parameters& parameters) {
  const auto only = find_word(parameters, "only");
  if (only && *only != "lockstep") {
    throw Refusal{400, fmt::format("invalid only '{}': must be lockstep", *only)};
  }
  std::vector<Snapshot> snapshots;
  std::set<std::string> directories;
  std::set<std::string> names;
  snapshots.reserve(runs_.size());
  for (const auto& run : runs_) {
    const std::lock_guard lock(run->mutex);
    Snapshot snapshot = run->store.snapshot();
    if (!directories.insert(snapshot.directory).second) {
      continue;
    }
    if (!names.insert(snapshot.run_id).second) {
      snapshot.run_id = snapshot.directory;
    }
    snapshots.push_back(std::move(snapshot));
  }
  return {.type = kPrometheusType,
          .body = prometheus_text(snapshots, wall_time(), only ? Names::Own : Names::All)};
}

// Logs are read from the file for each request and need no lock. Each attempt has its own log
// directory; without a parameter, the newest attempt is shown. A rank that the attempt does not
// have is an error, but an attempt without any log yet is an empty page, because the workers may be
// starting.
Answer Site::log(const Followed& run, const Parameters& parameters) const {
  constexpr int64_t kMaxInt = std::numeric_limits<int>::max();
  const contract::RunDirectory& directory = run.shown.directory;
  const int rank = static_cast<int>(find_whole(parameters, "rank", kMaxInt).value_or(0));
  const auto asked = find_whole(parameters, "attempt", kMaxInt);
  const auto after = find_whole(parameters, "after");
  LogQuery query;
  query.search = find_word(parameters, "search").value_or("");
  query.max_lines = static_cast<size_t>(find_whole(parameters, "lines", kMaxLogLines)
                                            .value_or(static_cast<int64_t>(query.max_lines)));
  if (after) {
    query.after = static_cast<uint64_t>(*after);
  }
  const std::vector<int> attempts = directory.find_attempts();
  const int newest = attempts.empty() ? 0 : attempts.back();
  const int attempt = asked ? static_cast<int>(*asked) : newest;
  const std::vector<int> ranks = directory.find_logged_ranks(attempt);
  if (!ranks.empty() && std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) {
    throw Refusal{
        404,
        fmt::format(
            "rank {} has no log in attempt {} (number of ranks: {})", rank, attempt, ranks.size())};
  }

  const LogPage page = read_log(directory.log(attempt, rank), query);
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  for (const LogLine& line : page.lines) {
    lines.push_back({{"offset", line.offset}, {"text", line.text}});
  }
  const nlohmann::ordered_json json = {{"rank", rank},
                                       {"attempt", attempt},
                                       {"attempts", attempts},
                                       {"ranks", ranks.size()},
                                       {"lines", lines},
                                       {"next", page.next},
                                       {"size", page.size_bytes},
                                       {"searched_from", page.searched_from}};
  return {.body = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)};
}

}  // namespace lockstep::monitor
