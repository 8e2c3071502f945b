// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "launcher/monitor/series.h"

namespace lockstep::monitor {

// Whether to keep every value of the series of this name until take_news() returns it.
using NewsFilter = std::function<bool(std::string_view name)>;

// All series of a run by name. Their addresses are stable, so callers can keep pointers to them.
class SeriesTable {
 public:
  // `usual`: capacity of a series; `many`: capacity of a series that exists for each rank, node or
  // GPU, of which there may be thousands.
  SeriesTable(size_t usual, size_t many, NewsFilter keeps_news)
      : usual_(usual), many_(many), keeps_news_(std::move(keeps_news)) {}

  // The series of that name; created if it does not exist.
  Series& one(std::string_view name) { return find_or_make(name, usual_); }
  Series& of_many(std::string_view name) { return find_or_make(name, many_); }

  const std::map<std::string, Series, std::less<>>& all() const { return series_; }
  std::map<std::string, Series, std::less<>>& all() { return series_; }

 private:
  Series& find_or_make(std::string_view name, size_t capacity) {
    const auto found = series_.find(name);
    if (found != series_.end()) {
      return found->second;
    }
    Series& made = series_.emplace(std::string(name), Series(capacity)).first->second;
    if (keeps_news_ && keeps_news_(name)) {
      made.keep_news();
    }
    return made;
  }

  size_t usual_;
  size_t many_;
  NewsFilter keeps_news_;
  std::map<std::string, Series, std::less<>> series_;
};

}  // namespace lockstep::monitor
