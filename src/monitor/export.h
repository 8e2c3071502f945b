// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "monitor/event_store.h"

// A run as a file for other programs, docs/watch.md.
namespace lockstep::monitor {

// The series that are meant by `patterns`, where * stands for any letters; all where there is none.
// Throws an Error (64) that quotes a pattern that means none.
std::vector<std::string> choose_series(const EventStore& store,
                                       const std::vector<std::string>& patterns);

// Whether `patterns` mean a series of this name.
bool is_chosen(std::string_view name, const std::vector<std::string>& patterns);

// kind,name,time,step,mean,low,high,text: a row per point of a series and per mark.
std::string export_csv(const EventStore& store, const std::vector<std::string>& series);

// {"run": {...}, "series": {NAME: [[time, step, mean, low, high], ...]}, "marks": [...]}
std::string export_json(const EventStore& store, const std::vector<std::string>& series);

}  // namespace lockstep::monitor
