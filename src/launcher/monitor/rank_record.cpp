// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/rank_record.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

// Turns the events of one rank into its current speed (over the last kRecent step events), its
// totals (over all attempts) and its series.
//
// A step event describes the interval since the previous one: its seconds are sums over the steps
// in that interval, not per step. The first entry of recent_ therefore contributes its time and
// step as the start of the window, but not its seconds:
//
//   recent_:   entry 0     entry 1     ...     entry n
//   time       t0          t1                  tn
//   step       s0          s1                  sn
//   seconds    (ignored)   t0..t1              ..tn
//
//   step_seconds = (tn - t0) / (sn - s0)
//   split        = sum of seconds of entries 1..n / (sn - s0)
namespace lockstep::monitor {
namespace {

// Number of step events to average over: four seconds at the maximum rate of four events a second.
// Enough to smooth single events, few enough to show the current speed.
constexpr size_t kRecent = 16;

std::optional<int64_t> whole(std::optional<double> number) {
  return number ? std::optional(static_cast<int64_t>(*number)) : std::nullopt;
}

// Keeps the old value if the event does not have the field.
void keep(std::optional<double>& field, const contract::Event& event, const char* name) {
  if (const auto number = contract::find_number(event, name)) {
    field = number;
  }
}

// Compute time includes the optimizer step.
std::optional<double> compute_of(const contract::Event& event) {
  const auto seconds = contract::find_number(event, "compute_seconds");
  const auto update = contract::find_number(event, "update_seconds");
  return seconds && update ? std::optional(*seconds + *update) : seconds;
}

TimeSplit split_of(const contract::Event& event) {
  return {.data = contract::find_number(event, "data_seconds"),
          .compute = compute_of(event),
          .exchange = contract::find_number(event, "exchange_seconds"),
          .checkpoint = contract::find_number(event, "checkpoint_seconds")};
}

void add_to(std::optional<double>& sum, const std::optional<double>& more) {
  if (more) {
    sum = sum.value_or(0) + *more;
  }
}

void divide(std::optional<double>& sum, double by) {
  if (sum) {
    *sum /= by;
  }
}

// The own step time: without the exchange, which is mostly waiting for other ranks. Nothing if the
// compute time is unknown.
std::optional<double> own_of(const TimeSplit& split) {
  if (!split.compute) {
    return std::nullopt;
  }
  return *split.compute + split.data.value_or(0) + split.checkpoint.value_or(0);
}

}  // namespace

std::optional<double> find_stall(const contract::Event& event) {
  const auto stall = contract::find_number(event, "stall_seconds");
  return stall ? stall : contract::find_number(event, "seconds");
}

RankRecord::RankRecord(int rank, SeriesTable& table) : table_(table) {
  view_.rank = rank;
}

// An attempt begins: what describes the current speed is reset, totals and peaks are kept.
// Values such as the loss stay visible until the first step event replaces them.
void RankRecord::start(const contract::Event& event) {
  recent_.clear();
  view_.time = event.time;
  view_.step = -1;
  view_.has_ended = false;
  view_.step_seconds.reset();
  view_.own_seconds.reset();
  view_.split = {};
  counted_time_ = event.time;
  counted_step_.reset();
}

// A step that is smaller than the last one means that training has returned to a checkpoint within
// the same process. The window restarts there, or the speed would be negative.
void RankRecord::step(const contract::Event& event) {
  const int64_t step = whole(contract::find_number(event, "step")).value_or(view_.step);
  if (!recent_.empty() && step < recent_.back().step) {
    recent_.clear();
  }
  has_steps_ = true;
  sum_up(event, step);
  view_.time = event.time;
  view_.step = step;
  keep(view_.epoch, event, "epoch");
  keep(view_.loss, event, "loss");
  keep(view_.learning_rate, event, "learning_rate");
  keep(view_.samples_per_second, event, "samples_per_second");
  keep(view_.gradient_norm, event, "gradient_norm");
  const auto memory = contract::find_number(event, "memory_bytes");
  if (memory) {
    view_.memory_bytes = whole(memory);
    remember_peak(memory);
  }
  if (const auto bytes = contract::find_number(event, "device_memory_bytes")) {
    view_.device_memory_bytes = whole(bytes);
  }

  recent_.push_back({.time = event.time, .step = step, .spent = split_of(event)});
  if (recent_.size() > kRecent) {
    recent_.pop_front();
  }
  add(step_series_, "step", {.time = event.time, .step = step, .mean = static_cast<double>(step)});
  const auto steps = static_cast<double>(step - recent_.front().step);
  if (steps <= 0) {
    return;
  }
  view_.step_seconds = (event.time - recent_.front().time) / steps;
  TimeSplit sum;
  for (auto entry = recent_.begin() + 1; entry != recent_.end(); ++entry) {
    add_to(sum.data, entry->spent.data);
    add_to(sum.compute, entry->spent.compute);
    add_to(sum.exchange, entry->spent.exchange);
    add_to(sum.checkpoint, entry->spent.checkpoint);
  }
  for (auto* part : {&sum.data, &sum.compute, &sum.exchange, &sum.checkpoint}) {
    divide(*part, steps);
  }
  view_.split = sum;
  view_.own_seconds = own_of(sum);
  if (view_.own_seconds) {
    add(own_series_, "own_seconds", {.time = event.time, .step = step, .mean = *view_.own_seconds});
  }
  if (sum.exchange) {
    add(exchange_series_,
        "exchange_seconds",
        {.time = event.time, .step = step, .mean = *sum.exchange});
  }
}

void RankRecord::evaluate(const contract::Event& event) {
  view_.time = std::max(view_.time, event.time);
}

void RankRecord::save(const contract::Event& event) {
  add_to(view_.totals.stall, find_stall(event));
}

// The end event has the final step, which is usually later than the last step event, because step
// events are limited in rate. It has no split, so only the steps are added to the totals.
void RankRecord::end(const contract::Event& event) {
  view_.time = event.time;
  view_.has_ended = true;
  view_.step = whole(contract::find_number(event, "step")).value_or(view_.step);
  if (counted_step_) {
    view_.totals.steps += std::max<int64_t>(0, view_.step - *counted_step_);
  }
  counted_time_.reset();
  counted_step_.reset();
  remember_peak(contract::find_number(event, "peak_bytes"));
}

// Numbers in the output are a fallback for programs that do not use the library. A program that
// writes step events and also prints its loss must not have both mixed, so the events win from the
// first one on.
void RankRecord::metric(double time, const std::string& name, double value) {
  view_.time = std::max(view_.time, time);
  if (has_steps_) {
    return;
  }
  if (name == "step" && std::isfinite(value)) {
    view_.step = static_cast<int64_t>(value);
  } else if (name == "epoch") {
    view_.epoch = value;
  } else if (name == "loss") {
    view_.loss = value;
  } else if (name == "learning_rate") {
    view_.learning_rate = value;
  } else if (name == "samples_per_second") {
    view_.samples_per_second = value;
  }
}

// Called with samples of the agent, whose clock and rate are independent of the events of the
// worker. Does not set view_.time: a worker that hangs still has samples, and its age must grow.
void RankRecord::observe(int node, double time, const contract::WorkerSample& sample) {
  view_.node = node;
  view_.cores = sample.cores;
  view_.memory_bytes = sample.memory_bytes;
  view_.gpus = sample.gpus;
  if (const double seconds = clock_.since_last(time); seconds > 0) {
    view_.totals.cores.add(sample.cores, seconds);
  }
  const auto memory = static_cast<double>(sample.memory_bytes);
  remember_peak(memory);
  add(cores_series_, "cores", {.time = time, .step = kStepUnknown, .mean = sample.cores});
  add(memory_series_, "memory_bytes", {.time = time, .step = kStepUnknown, .mean = memory});
}

RankView RankRecord::view() const {
  return view_;
}

double RankRecord::steps_per_event() const {
  return recent_.size() < 2 ? 0
                            : static_cast<double>(recent_.back().step - recent_.front().step) /
                                  static_cast<double>(recent_.size() - 1);
}

// Creates a series at its first value, so a rank that never reports a quantity has no empty series.
// The pointer is cached: the table is a map by name, and this runs for every event of every rank.
void RankRecord::add(Series*& series, const char* name, const Point& point) {
  if (series == nullptr) {
    series = &table_.of_many(fmt::format("rank/{}/{}", view_.rank, name));
  }
  series->add(point.time, point.step, point.mean);
}

// Adds the time since the previous event, or since the start, to the totals. If the step goes back,
// the worker has resumed from a checkpoint, and the time in between is not counted.
void RankRecord::sum_up(const contract::Event& event, int64_t step) {
  RankTotals& totals = view_.totals;
  const bool is_again = counted_step_ && step < *counted_step_;
  if (counted_time_ && !is_again) {
    totals.seconds += std::max(0.0, event.time - *counted_time_);
  }
  if (counted_step_ && !is_again) {
    totals.steps += step - *counted_step_;
  }
  counted_time_ = event.time;
  counted_step_ = step;
  const TimeSplit spent = split_of(event);
  add_to(totals.data, spent.data);
  add_to(totals.compute, contract::find_number(event, "compute_seconds"));
  add_to(totals.exchange, spent.exchange);
  add_to(totals.checkpoint, spent.checkpoint);
  add_to(totals.update, contract::find_number(event, "update_seconds"));
}

void RankRecord::remember_peak(std::optional<double> bytes) {
  if (bytes) {
    view_.peak_memory_bytes =
        std::max(view_.peak_memory_bytes.value_or(0), static_cast<int64_t>(*bytes));
  }
}

}  // namespace lockstep::monitor
