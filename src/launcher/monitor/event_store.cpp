// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/event_store.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/base/text.h"
#include "common/contract/event.h"
#include "common/contract/launch_plan.h"
#include "common/contract/node_sample.h"
#include "common/contract/run_state.h"
#include "common/os/files.h"
#include "common/os/growing_file.h"
#include "launcher/monitor/line_tail.h"
#include "launcher/monitor/node_record.h"
#include "launcher/monitor/rank_record.h"
#include "launcher/monitor/series_table.h"
#include "launcher/monitor/stragglers.h"
#include "lockstep/error.h"

// How the files of a run become a snapshot:
//
//   RUN/plan.json ---------------> read_plan()   command
//   RUN/state.json --------------> read_state()  phase, attempt, world size, exit code
//   RUN/events/rank-R.jsonl ---+
//   RUN/events/output-R.jsonl -+-> LineTail -> take() -> RankRecord R, NodeRecord N -> Series
//   RUN/events/node-N.jsonl ---+                   \--> run_wide and marks (rank 0 only)
//
// Each file is read in order, but the files are read one after the other. An event of rank 1 can
// therefore be taken after a later event of rank 0. views() compares times instead of arrivals. A
// Series requires ascending times, so it should be fed by one file only. The exceptions are
// rank/R/cores and rank/R/memory_bytes, if a restart has moved rank R to another node.
//
// Memory is bounded by the number of ranks, nodes and metric names, not by the length of the run:
// each Series has a capacity, marks are limited to kMaxMarks, and totals are sums. Only the values
// that StoreLimits::keeps_news selects grow, until take_news() removes them.
namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;

// Clocks of nodes differ. An event counts as older than the last start of rank 0, and so as part of
// an earlier attempt, only if it is older by more than this.
constexpr double kClockSeconds = 1;

enum class Source { Rank, Node, Output };

// The source of a file in RUN/events. Nothing for other files and for rotated ones (FILE.1), which
// LineTail reads together with the current file. A worker writes rank-R.jsonl itself. The leader
// writes node-N.jsonl and output-R.jsonl from what the agents send, so these two are missing in a
// run that lockstep did not start.
std::optional<Source> find_source(std::string_view name) {
  constexpr std::string_view kEnd = ".jsonl";
  if (!name.ends_with(kEnd)) {
    return std::nullopt;
  }
  name.remove_suffix(kEnd.size());
  for (const auto& [begin, source] : {std::pair{std::string_view("rank-"), Source::Rank},
                                      {"node-", Source::Node},
                                      {"output-", Source::Output}}) {
    if (name.starts_with(begin) && find_integer(name.substr(begin.size()))) {
      return source;
    }
  }
  return std::nullopt;
}

std::string text_of(const contract::Event& event, std::string_view name) {
  for (const auto& [field, value] : event.fields) {
    if (const auto* text = std::get_if<std::string>(&value); text != nullptr && field == name) {
      return *text;
    }
  }
  return "";
}

// JSON numbers are doubles here. A NaN or infinity must not reach the cast, which would be
// undefined behaviour.
int64_t whole_of(const contract::Event& event, std::string_view name, int64_t fallback) {
  const auto number = contract::find_number(event, name);
  return number && std::isfinite(*number) ? static_cast<int64_t>(*number) : fallback;
}

}  // namespace

struct EventStore::Content {
  Content(contract::RunDirectory directory, const StoreLimits& limits)
      : run(std::move(directory)),
        table(limits.points, limits.points_of_many, limits.keeps_news),
        keeps_news(static_cast<bool>(limits.keeps_news)) {}

  void update_files();
  bool read_files();
  bool read_state();
  bool read_plan();
  void take(Source source, std::string_view line);
  void take_worker(const contract::Event& event);
  void take_leader(const contract::Event& event);
  void take_metric(const contract::Event& event);
  void take_node(contract::NodeSample sample);
  void add_numbers(const contract::Event& event, std::string_view prefix);
  void add_mark(Mark mark);
  void look_at_loss(double time, int64_t step, const std::optional<double>& loss);
  RankRecord& rank(int number);
  void look_up_steps(std::vector<Point>& points) const;
  void describe_run(Snapshot& snapshot) const;
  void describe_training(Snapshot& snapshot) const;
  std::vector<RankView> views(int world_size) const;

  contract::RunDirectory run;
  struct File {
    Source source;
    LineTail tail;
  };
  std::map<std::string, File> files;  // by name
  SeriesTable table;
  std::map<int, RankRecord> ranks;
  std::map<int, NodeRecord> nodes;
  std::deque<Mark> marks;
  bool keeps_news;
  std::vector<Mark> new_marks;
  std::optional<contract::RunState> state;
  std::optional<os::FileLook> state_look;
  std::optional<os::FileLook> plan_look;
  std::vector<std::string> command;
  Snapshot run_wide;  // the fields that rank 0 reports for the run as a whole
  int starts = 0;
  double last_start = 0;
  int64_t events = 0;
  int64_t bad_lines = 0;
  double newest = 0;
};

EventStore::EventStore(contract::RunDirectory run, const StoreLimits& limits)
    : content_(std::make_unique<Content>(std::move(run), limits)) {}
EventStore::~EventStore() = default;
EventStore::EventStore(EventStore&&) noexcept = default;
EventStore& EventStore::operator=(EventStore&&) noexcept = default;

// The state is read before the events. If the run ends between the two reads, the snapshot shows a
// running run with its last events, and the next poll() shows the end. In the opposite order, a
// snapshot could claim that the run has ended and miss its last events; readers that stop at the
// end would never see them.
bool EventStore::poll() {
  const bool has_plan = content_->read_plan();
  const bool has_state = content_->read_state();
  content_->update_files();
  return content_->read_files() || has_state || has_plan;
}

// Lists the directory on every poll, because ranks create their files at their first event and an
// elastic restart adds ranks. A file is never forgotten: LineTail copes with a file that
// disappears.
void EventStore::Content::update_files() {
  std::error_code fault;
  const fs::path directory = run.events();
  for (fs::directory_iterator entry(directory, fault), last; !fault && entry != last;
       entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    const auto source = find_source(name);
    if (source && !files.contains(name)) {
      files.emplace(name, File{.source = *source, .tail = LineTail(entry->path())});
    }
  }
}

bool EventStore::Content::read_files() {
  bool has_news = false;
  for (auto& [name, file] : files) {
    const Source source = file.source;
    has_news = file.tail.read([&](std::string_view line) { take(source, line); }) || has_news;
  }
  return has_news;
}

// The leader replaces state.json by a rename, so a change is visible as another inode or size. The
// file is examined before it is read: if it is replaced in between, this call reads the newer
// content, the stored look is the older one, and the next call reads the file again. An unreadable
// state keeps the previous one. Two replacements between two polls can reuse the inode number with
// an equal size; that change is seen only with the next replacement.
bool EventStore::Content::read_state() {
  const auto look = os::find_look(run.state());
  if (look == state_look) {
    return false;
  }
  try {
    state = contract::find_state(run);
  } catch (const Error&) {
    ++bad_lines;
  }
  if (state) {
    newest = std::max(newest, state->updated);
  }
  state_look = look;
  return true;
}

bool EventStore::Content::read_plan() {
  const auto look = os::find_look(run.plan());
  if (look == plan_look) {
    return false;
  }
  plan_look = look;
  try {
    command = contract::read_plan(run).command;
  } catch (const Error&) {
    ++bad_lines;
  }
  return true;
}

void EventStore::Content::take(Source source, std::string_view line) {
  if (line.empty()) {
    return;
  }
  try {
    if (source == Source::Node) {
      take_node(contract::parse_node_sample(line));
    } else {
      const contract::Event event = contract::parse_event(line);
      newest = std::max(newest, event.time);
      if (source == Source::Output) {
        take_metric(event);
      } else {
        take_worker(event);
      }
    }
    ++events;
  } catch (const Error&) {
    ++bad_lines;
  }
}

// An event kind that is not listed here is valid and ignored: newer libraries may add kinds.
void EventStore::Content::take_worker(const contract::Event& event) {
  if (event.rank < 0) {
    ++bad_lines;
    return;
  }
  RankRecord& record = rank(event.rank);
  if (event.kind == "start") {
    record.start(event);
  } else if (event.kind == "step") {
    record.step(event);
  } else if (event.kind == "end") {
    record.end(event);
  } else if (event.kind == "evaluation") {
    record.evaluate(event);
  } else if (event.kind == "checkpoint") {
    record.save(event);
  }
  if (event.rank == 0) {
    take_leader(event);
  }
}

// Values of the run as a whole are the same on every rank; they are taken from rank 0.
//
// "Leader" means rank 0 here, not the leader process of the launcher.
//
// A start event begins an attempt. Values that describe the configuration are replaced by it;
// counts (evaluations, checkpoints) continue over attempts, because they describe the run.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): one branch for each kind of event
void EventStore::Content::take_leader(const contract::Event& event) {
  const int64_t step = whole_of(event, "step", -1);
  if (event.kind == "start") {
    run_wide.strategy = text_of(event, "strategy");
    run_wide.transport = text_of(event, "transport");
    run_wide.global_batch = whole_of(event, "global_batch", 0);
    run_wide.gradient_bytes = whole_of(event, "gradient_bytes", 0);
    run_wide.steps = whole_of(event, "steps", 0);
    run_wide.world_size = static_cast<int>(whole_of(event, "workers", 0));
    last_start = event.time;
    add_mark({.time = event.time,
              .kind = starts == 0 ? Mark::Kind::Start : Mark::Kind::Restart,
              .text = fmt::format("{} workers", run_wide.world_size)});
    ++starts;
  } else if (event.kind == "first_step") {
    const auto seconds = contract::find_number(event, "seconds_since_command");
    run_wide.first_step_seconds = seconds && *seconds >= 0 ? seconds : std::nullopt;
  } else if (event.kind == "step") {
    add_numbers(event, "");
    look_at_loss(event.time, step, contract::find_number(event, "loss"));
  } else if (event.kind == "evaluation") {
    add_numbers(event, "evaluation/");
    run_wide.evaluation_loss = contract::find_number(event, "loss");
    run_wide.accuracy = contract::find_number(event, "accuracy");
    if (run_wide.accuracy && *run_wide.accuracy < 0) {
      run_wide.accuracy.reset();
    }
    run_wide.top5 = contract::find_number(event, "top5");
    ++run_wide.evaluations;
    add_mark(
        {.time = event.time,
         .step = step,
         .kind = Mark::Kind::Evaluation,
         .text = fmt::format("loss {:.4g}", run_wide.evaluation_loss.value_or(NAN)) +
                 (run_wide.accuracy ? fmt::format(", accuracy {:.4g}", *run_wide.accuracy) : "")});
  } else if (event.kind == "checkpoint") {
    const double seconds = find_stall(event).value_or(0);
    run_wide.checkpoint_seconds += seconds;
    run_wide.checkpoint_step = step;
    run_wide.checkpoint_time = event.time;
    ++run_wide.checkpoints;
    add_mark({.time = event.time,
              .step = step,
              .kind = Mark::Kind::Checkpoint,
              .text = fmt::format("{}, {:.3g} s", text_of(event, "directory"), seconds)});
  } else if (event.kind == "end") {
    add_mark({.time = event.time, .step = step, .kind = Mark::Kind::End});
  }
}

// The agent matches the output line by line and does not know the step, except for the metric that
// is named "step". All other points get kStepUnknown, and look_up_steps() replaces it on reading.
void EventStore::Content::take_metric(const contract::Event& event) {
  const std::string name = text_of(event, "name");
  const auto value = contract::find_number(event, "value");
  if (event.kind != "metric" || name.empty() || !value || event.rank < 0) {
    ++bad_lines;
    return;
  }
  rank(event.rank).metric(event.time, name, *value);
  if (event.rank == 0) {
    run_wide.output_metrics[name] = *value;
    if (name == "loss") {
      look_at_loss(event.time, -1, value);
    }
    const bool is_step = name == "step" && std::isfinite(*value);
    table.one("output/" + name)
        .add(event.time, is_step ? static_cast<int64_t>(*value) : kStepUnknown, *value);
  }
}

void EventStore::Content::take_node(contract::NodeSample sample) {
  newest = std::max(newest, sample.time);
  for (const contract::WorkerSample& worker : sample.workers) {
    if (worker.rank >= 0) {
      rank(worker.rank).observe(sample.node, sample.time, worker);
    }
  }
  const int node = sample.node;
  nodes.try_emplace(node, node, table).first->second.add(std::move(sample));
}

// An accuracy below 0 means that no samples were scored; it must not become a point, or the scale
// of the chart would include it.
void EventStore::Content::add_numbers(const contract::Event& event, std::string_view prefix) {
  const int64_t step = whole_of(event, "step", 0);
  for (const auto& [name, value] : event.fields) {
    const auto number = contract::find_number(event, name);
    const bool is_unknown = name == "accuracy" && number && *number < 0;
    if (number && !is_unknown) {
      table.one(std::string(prefix) + name).add(event.time, step, *number);
    }
  }
}

// Keeps the first loss that is not finite: later ones are consequences of it.
void EventStore::Content::look_at_loss(double time,
                                       int64_t step,
                                       const std::optional<double>& loss) {
  if (loss && !std::isfinite(*loss) && !run_wide.bad_loss_time) {
    run_wide.bad_loss_time = time;
    run_wide.bad_loss_step = step;
  }
}

void EventStore::Content::add_mark(Mark mark) {
  if (keeps_news) {
    new_marks.push_back(mark);
  }
  marks.push_back(std::move(mark));
  if (marks.size() > kMaxMarks) {
    marks.pop_front();
  }
}

RankRecord& EventStore::Content::rank(int number) {
  return ranks.try_emplace(number, number, table).first->second;
}

// Replaces unknown steps by the step of rank 0 at that time, from its events or its output. The
// lookup happens on reading, not on arrival. Node samples and events arrive in any order, and the
// step event of a time may be read after the sample of that time.
void EventStore::Content::look_up_steps(std::vector<Point>& points) const {
  auto found = table.all().find("step");
  found = found == table.all().end() ? table.all().find("output/step") : found;
  if (found == table.all().end()) {
    return;
  }
  for (Point& point : points) {
    if (point.step == kStepUnknown) {
      point.step = found->second.find_step(point.time).value_or(0);
    }
  }
}

// Events count restarts as repeated starts of rank 0; the state counts them as attempts. Both can
// be too small: a run without lockstep has no state, and an attempt that fails before training has
// no start event. The larger one is shown.
void EventStore::Content::describe_run(Snapshot& snapshot) const {
  snapshot.directory = run.root().string();
  snapshot.command = command;
  snapshot.updated = newest;
  snapshot.events = events;
  snapshot.bad_lines = bad_lines;
  for (const auto& [name, file] : files) {
    snapshot.bad_lines += file.tail.losses();
  }
  snapshot.restarts = std::max(0, starts - 1);
  if (!state) {
    snapshot.run_id = run.name();
    snapshot.phase = plan_look || files.empty() ? "" : kNotOurs;
    return;
  }
  snapshot.run_id = state->run_id;
  snapshot.job = state->slurm_job;
  snapshot.phase = contract::name_of(state->phase);
  snapshot.attempt = state->attempt;
  snapshot.restarts = std::max(snapshot.restarts, state->attempt);
  snapshot.started = state->started;
  snapshot.ended = state->ended;
  snapshot.exit_code = state->exit_code;
  if (state->world_size > 0) {
    snapshot.world_size = state->world_size;
  }
}

// The step of the run is the minimum over the ranks that have reported a step in this attempt.
// Ranks without a report are skipped, because after a restart it would be unknown until the slowest
// rank reports.
void EventStore::Content::describe_training(Snapshot& snapshot) const {
  const auto leader = std::find_if(snapshot.ranks.begin(),
                                   snapshot.ranks.end(),
                                   [](const RankView& view) { return view.rank == 0; });
  if (leader == snapshot.ranks.end()) {
    return;
  }
  for (const RankView& view : snapshot.ranks) {
    if (view.step >= 0) {
      snapshot.step = snapshot.step < 0 ? view.step : std::min(snapshot.step, view.step);
    }
  }
  snapshot.epoch = leader->epoch;
  snapshot.loss = leader->loss;
  snapshot.learning_rate = leader->learning_rate;
  snapshot.samples_per_second = leader->samples_per_second;
  snapshot.gradient_norm = leader->gradient_norm;
  snapshot.step_seconds = leader->step_seconds;
  if (snapshot.steps > 0 && snapshot.step >= 0 && snapshot.step_seconds && !snapshot.ended) {
    snapshot.seconds_left =
        static_cast<double>(snapshot.steps - snapshot.step) * *snapshot.step_seconds;
  }
  const auto accuracy = snapshot.output_metrics.find("accuracy");
  if (!snapshot.accuracy && accuracy != snapshot.output_metrics.end()) {
    snapshot.accuracy = accuracy->second;
  }
}

// The ranks of the last attempt. A larger earlier attempt leaves files of ranks that no longer
// exist. RankView::node changes its meaning here: RankRecord stores the number of the node, the
// snapshot has the index into Snapshot::nodes. Node numbers can have holes.
std::vector<RankView> EventStore::Content::views(int world_size) const {
  std::vector<RankView> views;
  for (const auto& [number, record] : ranks) {
    if (world_size > 0 && number >= world_size) {
      break;
    }
    RankView view = record.view();
    if (view.time < last_start - kClockSeconds) {  // no event in this attempt yet
      view.step = -1;
      view.step_seconds.reset();
      view.own_seconds.reset();
      view.has_ended = false;
    }
    const auto node = nodes.find(view.node);
    view.node = node == nodes.end() ? -1 : static_cast<int>(std::distance(nodes.begin(), node));
    views.push_back(std::move(view));
  }
  return views;
}

Snapshot EventStore::snapshot() const {
  const Content& content = *content_;
  Snapshot snapshot = content.run_wide;
  content.describe_run(snapshot);
  snapshot.ranks = content.views(snapshot.world_size);
  for (const auto& [number, record] : content.nodes) {
    snapshot.nodes.push_back(record.view());
  }
  content.describe_training(snapshot);
  double maximum = 0;
  for (const auto& [number, record] : content.ranks) {
    maximum = std::max(maximum, record.steps_per_event());
  }
  // Ranks do not report at the same time, so a rank can be two reports behind without being late.
  mark_stragglers(snapshot.ranks, static_cast<int64_t>(std::ceil(2 * maximum)) + 1);
  return snapshot;
}

std::vector<Point> EventStore::series(const std::string& name,
                                      double from,
                                      double to,
                                      size_t max_points) const {
  const auto found = content_->table.all().find(name);
  if (found == content_->table.all().end()) {
    return {};
  }
  std::vector<Point> points = found->second.points(from, to, max_points);
  content_->look_up_steps(points);
  return points;
}

std::vector<std::string> EventStore::series_names() const {
  std::vector<std::string> names;
  names.reserve(content_->table.all().size());
  for (const auto& [name, series] : content_->table.all()) {
    names.push_back(name);
  }
  return names;
}

News EventStore::take_news() {
  News news{.values = {}, .marks = std::exchange(content_->new_marks, {})};
  for (auto& [name, series] : content_->table.all()) {
    std::vector<Point> values = series.take_news();
    if (!values.empty()) {
      content_->look_up_steps(values);
      news.values.emplace(name, std::move(values));
    }
  }
  return news;
}

std::vector<Mark> EventStore::marks() const {
  return {content_->marks.begin(), content_->marks.end()};
}

}  // namespace lockstep::monitor
