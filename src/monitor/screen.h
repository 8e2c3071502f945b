// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/series.h"
#include "monitor/snapshot.h"

// What `lockstep watch` shows, as a pure function of what is known.
namespace lockstep::monitor {

enum class Sort { Rank, Step, Loss, Gpu, Cpu, Memory, Late };

// "rank"; nothing for a word that is none.
std::string_view name_of(Sort sort);
std::optional<Sort> find_sort(std::string_view word);

// How the viewer wants it.
struct ScreenState {
  Sort sort = Sort::Rank;
  std::string filter = {};  // of ranks: what a row must contain, in any case; empty: all
  size_t first_row = 0;     // how far it is scrolled
  bool is_typing = false;   // a filter
  bool wants_help = false;
  bool is_left = false;  // the viewer has enough
};

// One press: a letter, or "up", "down", "page up", "page down", "home", "end", "enter", "escape",
// "backspace".
void press(ScreenState& state, std::string_view key);

struct ScreenSize {
  size_t columns = 80;
  size_t rows = 0;  // 0: as many as there are, and no line of keys
};

struct ScreenLine {
  enum class Style { Plain, Title, Head, Alarm, Faint };

  std::string text;  // as many columns as there are at most
  Style style = Style::Plain;
};

// The lines from top to bottom. `loss` is drawn as a curve; `now` is the viewer's clock.
std::vector<ScreenLine> render_screen(const Snapshot& snapshot,
                                      const std::vector<Point>& loss,
                                      const ScreenState& state,
                                      const ScreenSize& size,
                                      double now);

// The lines without style.
std::string plain_text(const std::vector<ScreenLine>& lines);

// How many points of the loss the curve has room for.
size_t curve_columns(const ScreenSize& size);

}  // namespace lockstep::monitor
