// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/report_html.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "launcher/report/markup.h"

// The page is one file that can be mailed or stored with the run. It has no script, so it also
// works in viewers that forbid them, and no font or style from another host. Every text passes
// escape_markup().
namespace lockstep::report {
namespace {

// Colours are variables, with a second set for dark themes. Tables scroll inside their own element,
// so that a wide table does not make the page wider than a phone.
constexpr const char* kStyle = R"(
:root{color-scheme:light dark;--page:#f6f7f9;--card:#fff;--text:#1b1f24;--faint:#5b6470;
--line:#d8dde3;--bar:#3f7fd0;--track:#e6eaef;--advice:#fff6e0;--edge:#d69b17}
@media(prefers-color-scheme:dark){:root{--page:#14171b;--card:#1d2127;--text:#e4e7eb;
--faint:#98a2ae;--line:#343b44;--bar:#5b9bea;--track:#2c333b;--advice:#2b2617;--edge:#c99a2e}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif}
main{max-width:1100px;margin:0 auto;padding:16px}
h1{font-size:1.35rem;margin:8px 0 16px;overflow-wrap:anywhere}
h2{font-size:1.02rem;margin:0 0 8px}
section{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:14px 16px;
margin:0 0 14px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:3px 16px;margin:0}
dt{color:var(--faint)}dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin-top:6px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:4px 14px 4px 0;border-bottom:1px solid var(--line);
white-space:nowrap;vertical-align:middle}
th{color:var(--faint);font-weight:500}
tr:last-child td{border-bottom:0}
.bar{display:inline-block;width:90px;height:9px;border-radius:3px;background:var(--track);
margin-right:8px;overflow:hidden;vertical-align:baseline}
dd .bar{width:min(260px,40vw)}
.bar i{display:block;height:100%;background:var(--bar)}
.remark,.none{color:var(--faint);margin:8px 0 0}
.advice{background:var(--advice);border-left:4px solid var(--edge)}
.advice ul{margin:2px 0 12px;padding-left:20px}
.advice p{margin:0}.advice .means{color:var(--faint)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(440px,100%),1fr));gap:14px;
margin:0 0 14px}
.charts section{margin:0;padding:8px}
.charts svg{display:block;width:100%;height:auto}
@media(max-width:560px){dl{grid-template-columns:1fr;gap:0}dd{margin:0 0 6px}main{padding:8px}
.charts section{overflow-x:auto;min-width:0}.charts svg{width:560px;max-width:none!important}}
@media print{section{break-inside:avoid}}
)";

std::string cell_html(const Cell& cell) {
  constexpr double kHundred = 100;
  std::string html;
  if (cell.share) {
    const double share = std::isnan(*cell.share) ? 0 : std::clamp(*cell.share, 0.0, 1.0);
    html =
        fmt::format(R"(<span class="bar"><i style="width:{:.1f}%"></i></span>)", kHundred * share);
  }
  return html + escape_markup(cell.text);
}

std::string lines_html(const Section& section) {
  std::string html = "<dl>\n";
  for (const auto& [label, cell] : section.lines) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", escape_markup(label), cell_html(cell));
  }
  return html + "</dl>\n";
}

std::string table_html(const Section& section) {
  std::string html = R"(<div class="scroll"><table><thead><tr>)";
  for (const std::string& name : section.head) {
    html += fmt::format("<th>{}</th>", escape_markup(name));
  }
  html += "</tr></thead><tbody>\n";
  for (const std::vector<Cell>& row : section.rows) {
    html += "<tr>";
    for (const Cell& cell : row) {
      html += fmt::format("<td>{}</td>", cell_html(cell));
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string section_html(const Section& section) {
  std::string html = "<section>\n";
  if (!section.title.empty()) {
    html += fmt::format("<h2>{}</h2>\n", escape_markup(section.title));
  }
  if (!section.lines.empty()) {
    html += lines_html(section);
  }
  if (!section.rows.empty()) {
    html += table_html(section);
  }
  if (!section.remark.empty()) {
    html += fmt::format("<p class=\"remark\">{}</p>\n", escape_markup(section.remark));
  }
  return html + "</section>\n";
}

std::string advice_html(const Page& page) {
  std::string html = page.advice.empty() ? "<section>\n" : "<section class=\"advice\">\n";
  html += "<h2>Advice</h2>\n";
  for (const Advice& advice : page.advice) {
    html += fmt::format("<p><b>{}</b></p><p class=\"means\">{}</p><ul>\n",
                        escape_markup(advice.seen),
                        escape_markup(advice.means));
    for (const std::string& one : advice.tries) {
      html += fmt::format("<li>{}</li>\n", escape_markup(one));
    }
    html += "</ul>\n";
  }
  if (page.advice.empty()) {
    html += page.untried.empty() ? "<p>No problems found.</p>\n"
                                 : "<p>No problems found in the available data.</p>\n";
  }
  for (const std::string& reason : page.untried) {
    html += fmt::format("<p class=\"none\">Not checked: {}</p>\n", escape_markup(reason));
  }
  return html + "</section>\n";
}

std::string charts_html(const std::vector<Chart>& charts) {
  if (charts.empty()) {
    return "";
  }
  std::string html = "<div class=\"charts\">\n";
  for (const Chart& chart : charts) {
    html += fmt::format("<section>{}</section>\n", draw_svg(chart));
  }
  return html + "</div>\n";
}

}  // namespace

std::string report_html(const Page& page, const std::vector<Chart>& charts) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0}: report</title>\n<style>{1}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
      escape_markup(page.title),
      kStyle);
  // The run and the advice first, then the measurements.
  for (size_t i = 0; i < page.sections.size(); ++i) {
    html += section_html(page.sections[i]);
    if (i == 0) {
      html += advice_html(page) + charts_html(charts);
    }
  }
  if (!page.missing.empty()) {
    html += "<section>\n<h2>Not available</h2>\n<ul>\n";
    for (const std::string& one : page.missing) {
      html += fmt::format("<li>{}</li>\n", escape_markup(one));
    }
    html += "</ul>\n</section>\n";
  }
  return html + "</main>\n</body>\n</html>\n";
}

}  // namespace lockstep::report
