// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contract/run_directory.h"
#include "monitor/series.h"
#include "monitor/series_table.h"
#include "monitor/snapshot.h"

namespace lockstep::monitor {

// How many points a series keeps before it halves its resolution.
struct StoreLimits {
  size_t points = Series::kUsualCapacity;
  size_t points_of_many = 256;  // of what there is one for each rank, node or GPU
  NewsFilter keeps_news = {};   // of which series take_news() gives every value; empty: of none
};

// What was read since the last time, nothing of it thinned out.
struct News {
  std::map<std::string, std::vector<Point>> values;  // by series; a step may be kStepUnknown
  std::vector<Mark> marks;
};

// What the files of a run tell, read once and then followed, in bounded memory.
//
// Needs nothing but the directory, so it works wherever that can be seen, during the run and after
// it. What is missing, cut or no event is no error: it is counted, or not there yet. One thread.
//
// Series, with what they are of:
//   step, loss, learning_rate, ...                 each number of rank 0's step events
//   evaluation/loss, evaluation/accuracy, ...      each number of rank 0's evaluations
//   output/NAME                                    what rank 0's output said of NAME
//   rank/R/step, rank/R/own_seconds, rank/R/exchange_seconds, rank/R/cores, rank/R/memory_bytes
//   node/N/cores, node/N/memory_bytes, node/N/received_per_second, node/N/sent_per_second
//   node/N/gpu/G/utilisation, .../memory_bytes, .../power_watts, .../energy_joules, .../temperature
class EventStore {
 public:
  explicit EventStore(contract::RunDirectory run, const StoreLimits& limits = {});
  ~EventStore();
  EventStore(EventStore&&) noexcept;
  EventStore& operator=(EventStore&&) noexcept;

  // Reads all that is new; true if anything was.
  bool poll();

  Snapshot snapshot() const;

  // A series between two times, as `most_points` points at most; empty where there is none.
  std::vector<Point> series(const std::string& name,
                            double from,
                            double to,
                            size_t most_points) const;
  std::vector<std::string> series_names() const;

  // Ascending by time; the newest kMostMarks.
  std::vector<Mark> marks() const;

  // Values and marks that poll() has read since the last call, each once. Only where limits ask for
  // it.
  News take_news();

  static constexpr size_t kMostMarks = 4096;

 private:
  struct Content;
  std::unique_ptr<Content> content_;
};

}  // namespace lockstep::monitor
