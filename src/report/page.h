// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/advice.h"
#include "report/run_facts.h"

namespace lockstep::report {

struct Cell {
  std::string text = {};
  std::optional<double> share = {};  // 0 to 1: drawn as a bar before the text
};

// A part of a report: lines with a label each, then a table, then a remark.
struct Section {
  std::string title = {};
  std::vector<std::pair<std::string, Cell>> lines = {};
  std::vector<std::string> head = {};
  std::vector<std::vector<Cell>> rows = {};  // as many cells as `head`
  std::string remark = {};
};

// What a report says, before it is text or HTML: both have the same words.
struct Page {
  std::string title = {};
  std::vector<Section> sections = {};
  std::vector<Advice> advice = {};
  std::vector<std::string> untried = {};
  std::vector<std::string> missing = {};
};

Page make_page(const RunFacts& facts);

// Sections of their own; those without content are left out of a page.
Section describe_gpus(const RunFacts& facts);
Section describe_nodes(const RunFacts& facts);
Section describe_ranks(const RunFacts& facts);
Section describe_split(const RunFacts& facts);
Section describe_slow_ranks(const RunFacts& facts);

// "2024-01-31 09:30:00 UTC"
std::string format_time(double time);

// Rows of a table at most; --json has all.
inline constexpr size_t kMostRows = 32;

}  // namespace lockstep::report
