// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/report/advice.h"
#include "launcher/report/run_facts.h"

namespace lockstep::report {

struct Cell {
  std::string text = {};
  std::optional<double> share = {};  // 0 to 1: drawn as a bar before the text
};

// A section of a report: labelled lines, then a table, then a remark.
struct Section {
  std::string title = {};
  std::vector<std::pair<std::string, Cell>> lines = {};
  std::vector<std::string> head = {};
  std::vector<std::vector<Cell>> rows = {};  // as many cells as `head`
  std::string remark = {};
};

// The content of a report, independent of its format; the text and the HTML page share it.
struct Page {
  std::string title = {};
  std::vector<Section> sections = {};
  std::vector<Advice> advice = {};
  std::vector<std::string> untried = {};
  std::vector<std::string> missing = {};
};

Page make_page(const RunFacts& facts);

// Single sections; a page omits those without content.
Section describe_gpus(const RunFacts& facts);
Section describe_nodes(const RunFacts& facts);
Section describe_ranks(const RunFacts& facts);
Section describe_split(const RunFacts& facts);
Section describe_slow_ranks(const RunFacts& facts);

// "2024-01-31 09:30:00 UTC"
std::string format_time(double time);

// Maximum number of rows of a table; --json lists all.
inline constexpr size_t kMaxRows = 32;

}  // namespace lockstep::report
