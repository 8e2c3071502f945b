// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_text.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"

namespace lockstep::report {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kBar = 30;       // columns of a bar in a labelled line
constexpr size_t kTableBar = 10;  // columns of a bar in a table
constexpr size_t kWidestCell = 28;

// Wraps a text at blanks; lines after the first are indented by `indent`. A word longer than a line
// is broken. Counts columns, not bytes, so that UTF-8 names and bars do not shorten a line.
std::string wrap(const std::string& text, size_t indent) {
  const size_t room = kColumns - indent;
  std::string wrapped;
  size_t column = 0;
  const auto begin_line = [&] {
    wrapped += "\n" + std::string(indent, ' ');
    column = 0;
  };
  for (std::string word : split(text, ' ')) {
    size_t columns = monitor::columns_of(word);
    if (column > 0 && column + 1 + columns > room) {
      begin_line();
    } else if (column > 0) {
      wrapped += ' ';
      ++column;
    }
    while (columns > room) {
      const std::string first = monitor::cut(word, room);
      wrapped += first;
      word.erase(0, first.size());
      columns = monitor::columns_of(word);
      begin_line();
    }
    wrapped += word;
    column += columns;
  }
  return wrapped;
}

// Replaces control characters, which texts of workers and commands can contain, by blanks.
std::string on_one_line(std::string text) {
  for (char& letter : text) {
    if (static_cast<unsigned char>(letter) < ' ' || letter == '\x7f') {
      letter = ' ';
    }
  }
  return text;
}

std::string trim_end(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

std::string cell_text(const Cell& cell, size_t bar_columns) {
  const std::string text = on_one_line(cell.text);
  return cell.share ? monitor::bar(*cell.share, bar_columns) + " " + text : text;
}

std::string render_lines(const Section& section) {
  size_t width = 0;
  for (const auto& [label, cell] : section.lines) {
    width = std::max(width, monitor::columns_of(label));
  }
  std::string text;
  for (const auto& [label, cell] : section.lines) {
    const std::string value =
        cell.share ? cell_text(cell, kBar) : wrap(on_one_line(cell.text), width + 4);
    text +=
        trim_end(fmt::format("  {}  {}", monitor::left(on_one_line(label), width), value)) + "\n";
  }
  return text;
}

// A cell is cut at kWidestCell, and a line at kColumns: long host names must not push the numbers
// off the screen.
std::string render_table(const Section& section) {
  std::vector<size_t> widths;
  widths.reserve(section.head.size());
  for (const std::string& name : section.head) {
    widths.push_back(monitor::columns_of(name));
  }
  std::vector<std::vector<std::string>> rows;
  rows.reserve(section.rows.size());
  for (const std::vector<Cell>& row : section.rows) {
    std::vector<std::string>& cells = rows.emplace_back();
    cells.reserve(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      cells.push_back(cell_text(row[i], kTableBar));
      widths[i] = std::min(kWidestCell, std::max(widths[i], monitor::columns_of(cells[i])));
    }
  }
  rows.insert(rows.begin(), section.head);
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  " + monitor::left(row[i], widths[i]);
    }
    text += trim_end(monitor::cut(line, kColumns)) + "\n";
  }
  return text;
}

std::string render(const Section& section) {
  std::string text = section.title.empty() ? "" : "\n" + section.title + "\n";
  text += render_lines(section);
  if (!section.rows.empty()) {
    text += render_table(section);
  }
  if (!section.remark.empty()) {
    text += "  " + wrap(section.remark, 2) + "\n";
  }
  return text;
}

std::string render_advice(const Page& page) {
  std::string text = "\nAdvice\n";
  for (const Advice& advice : page.advice) {
    text += "  * " + wrap(on_one_line(advice.seen), 4) + "\n";
    text += "    " + wrap("-> " + on_one_line(advice.means), 4) + "\n";
    for (const std::string& one : advice.tries) {
      text += "    " + wrap("try: " + on_one_line(one), 9) + "\n";
    }
  }
  if (page.advice.empty()) {
    text += page.untried.empty() ? "  No problems found.\n"
                                 : "  No problems found in the available data.\n";
  }
  for (const std::string& reason : page.untried) {
    text += "  " + wrap("Not checked: " + on_one_line(reason), 2) + "\n";
  }
  return text;
}

}  // namespace

std::string report_text(const Page& page) {
  std::string text = on_one_line(page.title) + "\n";
  text = monitor::cut(text, kColumns);
  for (const Section& section : page.sections) {
    text += render(section);
  }
  text += render_advice(page);
  if (!page.missing.empty()) {
    text += "\nNot available\n";
    for (const std::string& one : page.missing) {
      text += "  - " + wrap(on_one_line(one), 4) + "\n";
    }
  }
  return text;
}

}  // namespace lockstep::report
