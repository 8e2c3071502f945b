// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "monitor/series.h"

namespace lockstep::monitor {

// All series of a run by their names. They do not move, so that who adds often keeps a pointer.
class SeriesTable {
 public:
  // The capacities of a series, and of those that there may be thousands of.
  SeriesTable(size_t usual, size_t many) : usual_(usual), many_(many) {}

  // The series of that name, made if it is not there yet.
  Series& one(std::string_view name) { return find_or_make(name, usual_); }
  Series& of_many(std::string_view name) { return find_or_make(name, many_); }

  const std::map<std::string, Series, std::less<>>& all() const { return series_; }

 private:
  Series& find_or_make(std::string_view name, size_t capacity) {
    const auto found = series_.find(name);
    return found != series_.end()
               ? found->second
               : series_.emplace(std::string(name), Series(capacity)).first->second;
  }

  size_t usual_;
  size_t many_;
  std::map<std::string, Series, std::less<>> series_;
};

}  // namespace lockstep::monitor
