// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "monitor/series.h"

namespace lockstep::monitor {

// All series of a run by their names. They do not move, so that who adds often keeps a pointer.
using SeriesTable = std::map<std::string, Series, std::less<>>;

// Of what there is one for each rank, node or GPU: shorter, as there may be thousands.
inline constexpr size_t kManyCapacity = 256;

// The series of that name, made if it is not there yet.
inline Series& series_of(SeriesTable& table,
                         std::string_view name,
                         size_t capacity = Series::kUsualCapacity) {
  const auto found = table.find(name);
  return found != table.end() ? found->second
                              : table.emplace(std::string(name), Series(capacity)).first->second;
}

}  // namespace lockstep::monitor
