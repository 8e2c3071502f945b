// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/monitor/event_store.h"

// Exports a run as a file for other programs; docs/watch.md describes the formats.
namespace lockstep::monitor {

// The series that match any of `patterns`, in which * matches any characters; all series if there
// are no patterns. Throws an Error (64) that quotes a pattern without a match.
std::vector<std::string> choose_series(const EventStore& store,
                                       const std::vector<std::string>& patterns);

// Whether a name matches any of `patterns`.
bool is_chosen(std::string_view name, const std::vector<std::string>& patterns);

// kind,name,time,step,mean,low,high,text: a row per point of a series and per mark.
std::string export_csv(const EventStore& store, const std::vector<std::string>& series);

// {"run": {...}, "series": {NAME: [[time, step, mean, low, high], ...]}, "marks": [...]}
std::string export_json(const EventStore& store, const std::vector<std::string>& series);

}  // namespace lockstep::monitor
