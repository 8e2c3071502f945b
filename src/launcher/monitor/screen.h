// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/monitor/series.h"
#include "launcher/monitor/snapshot.h"

// The screen of `lockstep watch`, as a pure function of the state of the run.
namespace lockstep::monitor {

enum class Sort { Rank, Step, Loss, Gpu, Cpu, Memory, Late };

// "rank"; find_sort() returns nothing for an unknown word.
std::string_view name_of(Sort sort);
std::optional<Sort> find_sort(std::string_view word);

// The state of the user interface.
struct ScreenState {
  Sort sort = Sort::Rank;
  std::string filter = {};  // text that a row must contain, case-insensitive; empty: all rows
  size_t first_row = 0;     // first row that is shown
  bool is_typing = false;   // keys are added to the filter
  bool wants_help = false;
  bool is_left = false;  // the user has quit
};

// Handles one key: a character, or "up", "down", "page up", "page down", "home", "end", "enter",
// "escape" or "backspace".
void press(ScreenState& state, std::string_view key);

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 0;  // 0: unlimited, without the line of keys
};

struct ScreenLine {
  enum class Style { Plain, Title, Head, Alarm, Faint };

  std::string text;  // at most ScreenSize::columns columns
  Style style = Style::Plain;
};

// The lines from top to bottom. `loss` is drawn as a curve; `now` is the reader's clock.
std::vector<ScreenLine> render_screen(const Snapshot& snapshot,
                                      const std::vector<Point>& loss,
                                      const ScreenState& state,
                                      const ScreenSize& size,
                                      double now);

// The lines as plain text.
std::string plain_text(const std::vector<ScreenLine>& lines);

// Number of points of the loss that the curve has room for.
size_t curve_columns(const ScreenSize& size);

}  // namespace lockstep::monitor
