// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include "common/contract/event.h"
#include "launcher/monitor/series_table.h"
#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// The time that training was blocked by the checkpoint of an event; nothing if it is not reported.
std::optional<double> find_stall(const contract::Event& event);

// The events of one worker, and the samples of its agent about it.
class RankRecord {
 public:
  RankRecord(int rank, SeriesTable& table);

  // Events of the worker, in the order in which it wrote them.
  void start(const contract::Event& event);
  void step(const contract::Event& event);
  void evaluate(const contract::Event& event);
  void save(const contract::Event& event);
  void end(const contract::Event& event);

  // A value that the agent found in the worker's output. Ignored if the worker writes step events.
  void metric(double time, const std::string& name, double value);

  // A sample of the agent about the worker.
  void observe(int node, double time, const contract::WorkerSample& sample);

  RankView view() const;
  double steps_per_event() const;

 private:
  // A step event, and how the time since the previous one was spent, in seconds.
  struct Entry {
    double time = 0;
    int64_t step = 0;
    TimeSplit spent;
  };
  void add(Series*& series, const char* name, const Point& point);
  void sum_up(const contract::Event& event, int64_t step);
  void remember_peak(std::optional<double> bytes);

  SeriesTable& table_;
  RankView view_;
  bool has_steps_ = false;               // the worker writes step events
  std::deque<Entry> recent_;             // of this attempt, the newest last
  std::optional<double> counted_time_;   // time up to which the totals are complete
  std::optional<int64_t> counted_step_;  // step up to which the totals are complete
  SampleClock clock_;
  Series* step_series_ = nullptr;
  Series* own_series_ = nullptr;
  Series* exchange_series_ = nullptr;
  Series* cores_series_ = nullptr;
  Series* memory_series_ = nullptr;
};

}  // namespace lockstep::monitor
