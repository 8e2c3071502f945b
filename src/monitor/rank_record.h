// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>

#include "contract/event.h"
#include "monitor/series_table.h"
#include "monitor/snapshot.h"

namespace lockstep::monitor {

// How long training stood still for the checkpoint of an event; nothing where it does not tell.
std::optional<double> find_stall(const contract::Event& event);

// What one worker has told so far.
class RankRecord {
 public:
  RankRecord(int rank, SeriesTable& table);

  // Events of its own, in the order in which they were written.
  void start(const contract::Event& event);
  void step(const contract::Event& event);
  void evaluate(const contract::Event& event);
  void save(const contract::Event& event);
  void end(const contract::Event& event);

  // Found in its output by its agent: counts where it has no events of its own.
  void metric(double time, const std::string& name, double value);

  // What its agent sees of it.
  void observe(int node, double time, const contract::WorkerSample& sample);

  RankView view() const;
  bool has_steps() const { return has_steps_; }
  double steps_per_event() const;

 private:
  // An event, and where the time since the one before went, in seconds.
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
  bool has_steps_ = false;            // of its own
  std::deque<Entry> recent_;          // of this start, the newest last
  std::optional<double> told_time_;   // up to which time is summed up
  std::optional<int64_t> told_step_;  // and steps
  SampleClock clock_;
  Series* step_series_ = nullptr;
  Series* own_series_ = nullptr;
  Series* exchange_series_ = nullptr;
  Series* cores_series_ = nullptr;
  Series* memory_series_ = nullptr;
};

}  // namespace lockstep::monitor
