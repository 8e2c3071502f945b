// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/contract/run_directory.h"
#include "launcher/monitor/series.h"
#include "launcher/monitor/series_table.h"
#include "launcher/monitor/snapshot.h"

namespace lockstep::monitor {

// Number of points that a series keeps before it halves its resolution.
struct StoreLimits {
  size_t points = Series::kUsualCapacity;
  size_t points_of_many = 256;  // for series that exist for each rank, node or GPU
  NewsFilter keeps_news = {};   // series of which take_news() returns every value; empty: none
};

// The values and marks since the last call, at full resolution.
struct News {
  std::map<std::string, std::vector<Point>> values;  // by series; a step may be kStepUnknown
  std::vector<Mark> marks;
};

// The content of the files of a run, read incrementally and in bounded memory.
//
//   EventStore store(contract::RunDirectory("runs/train-a"));
//   store.poll();
//   const Snapshot now = store.snapshot();
//
// Needs only the run directory, so it works on every host that sees it, during the run and
// afterwards. Missing files are not an error: they may appear later. Lines that are truncated or
// not events are counted in Snapshot::bad_lines and skipped. Not thread-safe.
//
// Series:
//   step, loss, learning_rate, ...                 each number of rank 0's step events
//   evaluation/loss, evaluation/accuracy, ...      each number of rank 0's evaluations
//   output/NAME                                    values of --metric NAME in rank 0's output
//   rank/R/step, rank/R/own_seconds, rank/R/exchange_seconds, rank/R/cores, rank/R/memory_bytes
//   node/N/cores, node/N/memory_bytes, node/N/received_per_second, node/N/sent_per_second
//   node/N/gpu/G/utilisation, .../memory_bytes, .../power_watts, .../energy_joules, .../temperature
class EventStore {
 public:
  explicit EventStore(contract::RunDirectory run, const StoreLimits& limits = {});
  ~EventStore();
  EventStore(EventStore&&) noexcept;
  EventStore& operator=(EventStore&&) noexcept;

  // Reads new data from all files. Returns whether there was any.
  bool poll();

  Snapshot snapshot() const;

  // A series between two times, reduced to at most `max_points` points; empty if it does not
  // exist.
  std::vector<Point> series(const std::string& name,
                            double from,
                            double to,
                            size_t max_points) const;
  std::vector<std::string> series_names() const;

  // The newest kMaxMarks marks in ascending order of time.
  std::vector<Mark> marks() const;

  // The values and marks that poll() has read since the last call, each exactly once. Empty unless
  // StoreLimits::keeps_news selects series.
  News take_news();

  static constexpr size_t kMaxMarks = 4096;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace lockstep::monitor
