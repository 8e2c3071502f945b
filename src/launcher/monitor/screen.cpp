// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"
#include "launcher/monitor/rank_row.h"
#include "launcher/monitor/screen_header.h"

// The screen from top to bottom, if size.rows is not 0:
//
//   header lines      2 to 7, screen_header.cpp
//   head of the table
//   rows of ranks     as many as fit, from first_row on
//   empty lines       up to the last but one
//   key line          always the last line, so that it does not move
//
// Nothing here writes to a terminal: lockstep watch adds the escape sequences, and tests compare
// the lines with texts.
namespace lockstep::monitor {
namespace {

// In the order of the enumerators: press() uses the value of a Sort as an index.
constexpr std::array<std::pair<Sort, std::string_view>, 7> kSorts = {{{Sort::Rank, "rank"},
                                                                      {Sort::Step, "step"},
                                                                      {Sort::Loss, "loss"},
                                                                      {Sort::Gpu, "gpu"},
                                                                      {Sort::Cpu, "cpu"},
                                                                      {Sort::Memory, "memory"},
                                                                      {Sort::Late, "late"}}};
constexpr size_t kPage = 10;

// Backspace removes a whole UTF-8 character: the continuation bytes (10xxxxxx) and the byte before
// them.
void press_while_typing(ScreenState& state, std::string_view key) {
  if (key == "enter") {
    state.is_typing = false;
  } else if (key == "escape") {
    state.is_typing = false;
    state.filter.clear();
  } else if (key == "backspace") {
    while (!state.filter.empty() &&
           (static_cast<unsigned char>(state.filter.back()) & 0xC0U) == 0x80U) {
      state.filter.pop_back();
    }
    if (!state.filter.empty()) {
      state.filter.pop_back();
    }
  } else if (columns_of(key) == 1) {
    state.filter += key;
  }
  state.first_row = 0;
}

std::vector<ScreenLine> help_lines() {
  std::vector<ScreenLine> lines = {{.text = "lockstep watch", .style = ScreenLine::Style::Title}};
  for (const char* text :
       {"",
        "q            quit",
        "s            sort by rank, step, loss, gpu, cpu, memory, late",
        "/ TEXT       show rows that contain TEXT; Enter confirms, Escape clears the filter",
        "up, down     scroll by one row; page up, page down by ten; home, end",
        "?            show this page; any key returns",
        "",
        "GPU          utilization: fraction of time in which a kernel ran",
        "GPUmem       memory of the GPU in use by all processes",
        "CPU          busy cores relative to the worker's share of the granted cores",
        "memory       resident memory relative to the worker's share of the node's limit",
        "age          time since the last event of the rank",
        "! slow       own step time, without waiting for other ranks, is far above the median",
        "! -N         N steps behind the foremost rank"}) {
    lines.push_back({.text = text});
  }
  return lines;
}

ScreenLine key_line(const ScreenState& state, size_t first, size_t shown, size_t all) {
  if (state.is_typing) {
    return {.text = "filter: " + state.filter + "_", .style = ScreenLine::Style::Head};
  }
  std::string text = fmt::format("q quit  s sort: {}  / filter", name_of(state.sort));
  text += state.filter.empty() ? "" : ": " + state.filter;
  text += fmt::format("  ? help  rows {}-{} of {}",
                      shown == 0 ? 0 : first + 1,
                      shown == 0 ? 0 : first + shown,
                      all);
  return {.text = text, .style = ScreenLine::Style::Head};
}

}  // namespace

std::string_view name_of(Sort sort) {
  for (const auto& [each, name] : kSorts) {
    if (each == sort) {
      return name;
    }
  }
  return "";
}

std::optional<Sort> find_sort(std::string_view word) {
  for (const auto& [sort, name] : kSorts) {
    if (name == word) {
      return sort;
    }
  }
  return std::nullopt;
}

void press(ScreenState& state, std::string_view key) {
  if (state.is_typing) {
    press_while_typing(state, key);
  } else if (state.wants_help) {
    state.wants_help = false;
  } else if (key == "q") {
    state.is_left = true;
  } else if (key == "s") {
    state.sort = kSorts[(static_cast<size_t>(state.sort) + 1) % kSorts.size()].first;
    state.first_row = 0;
  } else if (key == "/") {
    state.is_typing = true;
  } else if (key == "?") {
    state.wants_help = true;
  } else if (key == "escape") {
    state.filter.clear();
  } else if (key == "up") {
    state.first_row -= std::min<size_t>(state.first_row, 1);
  } else if (key == "page up") {
    state.first_row -= std::min(state.first_row, kPage);
  } else if (key == "down") {
    ++state.first_row;
  } else if (key == "page down") {
    state.first_row += kPage;
  } else if (key == "home") {
    state.first_row = 0;
  } else if (key == "end") {
    state.first_row = SIZE_MAX / 2;  // render_screen() stops at the last page
  }
}

// The state is not changed here. A first_row beyond the last page is limited for drawing only,
// because the number of rows can change between a key and the next drawing.
// NOLINTNEXTLINE(readability-function-cognitive-complexity): parts of a screen from top to bottom
std::vector<ScreenLine> render_screen(const Snapshot& snapshot,
                                      const std::vector<Point>& loss,
                                      const ScreenState& state,
                                      const ScreenSize& size,
                                      double now) {
  std::vector<ScreenLine> lines =
      state.wants_help ? help_lines() : header_lines(snapshot, loss, size, now);
  if (!state.wants_help) {
    const RowLayout layout(snapshot, size.columns);
    const std::vector<const RankView*> chosen = choose_ranks(snapshot, state);
    lines.push_back({.text = layout.head(), .style = ScreenLine::Style::Head});
    const size_t above = lines.size() + 1;
    const size_t room =
        size.rows == 0 ? chosen.size() : (size.rows > above ? size.rows - above : 0);
    const size_t first = std::min(state.first_row, chosen.size() - std::min(room, chosen.size()));
    const size_t shown = std::min(room, chosen.size() - first);
    for (size_t i = first; i < first + shown; ++i) {
      lines.push_back(layout.row(snapshot, *chosen[i], now));
    }
    if (chosen.empty()) {
      lines.push_back({.text = snapshot.ranks.empty() ? "no rank has reported yet"
                                                      : "no rank matches the filter"});
    }
    if (size.rows > 0) {
      lines.resize(std::max(lines.size(), size.rows - 1));
      lines.resize(size.rows - 1);
      lines.push_back(key_line(state, first, shown, chosen.size()));
    }
  }
  if (size.rows > 0 && lines.size() > size.rows) {
    lines.resize(size.rows);
  }
  for (ScreenLine& line : lines) {
    line.text = cut(line.text, size.columns);
    line.text.erase(line.text.find_last_not_of(' ') + 1);
  }
  return lines;
}

std::string plain_text(const std::vector<ScreenLine>& lines) {
  std::string text;
  for (const ScreenLine& line : lines) {
    text += line.text + "\n";
  }
  return text;
}

size_t curve_columns(const ScreenSize& size) {
  constexpr size_t kNumbers = 30;
  constexpr size_t kMinimum = 8;
  return std::max(kMinimum, size.columns - std::min(size.columns, kNumbers));
}

}  // namespace lockstep::monitor
