// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/report.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/doctor/facts_json.h"
#include "launcher/plan/hostlist_format.h"

// One finding, with its columns:
//
//   |  warning  subject: nodes: text (source)
//   |           continuation of the text
//   |             row of a table, never wrapped
//   |           try: advice
namespace lockstep::doctor {
namespace {

constexpr size_t kColumns = 100;
constexpr size_t kVerdictWidth = 9;
constexpr size_t kIndent = 2 + kVerdictWidth;
constexpr std::string_view kTry = "try: ";

struct Counts {
  int ok = 0;
  int warning = 0;
  int broken = 0;
};

Counts count(const Findings& findings) {
  Counts counts;
  for (const Finding& finding : findings) {
    counts.ok += finding.severity == Severity::Ok ? 1 : 0;
    counts.warning += finding.severity == Severity::Warning ? 1 : 0;
    counts.broken += finding.severity == Severity::Broken ? 1 : 0;
  }
  return counts;
}

// Wraps at spaces; all lines but the first start at column `indent`.
std::string wrap(const std::string& text, size_t start, size_t indent) {
  std::string wrapped;
  size_t column = start;
  bool is_first = true;
  for (const std::string& word : split(text, ' ')) {
    if (word.empty()) {
      continue;
    }
    if (!is_first && column + 1 + word.size() > kColumns) {
      wrapped += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (!is_first) {
      wrapped += ' ';
      ++column;
    }
    wrapped += word;
    column += word.size();
    is_first = false;
  }
  return wrapped;
}

// Nodes of a finding; empty if there is only one node.
std::string whose(const Finding& finding, size_t nodes) {
  if (finding.nodes.empty() || nodes < 2) {
    return "";
  }
  return finding.nodes.size() == nodes ? fmt::format("{} nodes: ", nodes)
                                       : plan::to_hostlist(finding.nodes) + ": ";
}

std::string line_of(const Finding& finding, size_t nodes) {
  const std::string severity(name_of(finding.severity));
  std::string text = fmt::format("{}: {}{}", finding.subject, whose(finding, nodes), finding.text);
  if (!finding.source.empty()) {
    text += fmt::format(" ({})", finding.source);
  }
  std::string lines =
      fmt::format("  {:<{}}{}\n", severity, kVerdictWidth, wrap(text, kIndent, kIndent + 2));
  for (const std::string& row : finding.table) {
    lines += std::string(kIndent + 2, ' ') + row + "\n";
  }
  for (const std::string& advice : finding.advice) {
    lines += fmt::format("{}{}{}\n",
                         std::string(kIndent, ' '),
                         kTry,
                         wrap(advice, kIndent + kTry.size(), kIndent + kTry.size()));
  }
  return lines;
}

std::string head_of(const Facts& facts) {
  std::string text = fmt::format("lockstep {} doctor on {}", facts.version, facts.host);
  if (facts.cross_node.nodes.size() + facts.cross_node.missing.size() > 1) {
    std::vector<std::string> names = facts.cross_node.nodes;
    names.insert(names.end(), facts.cross_node.missing.begin(), facts.cross_node.missing.end());
    text += fmt::format(", {} nodes: {}", names.size(), plan::to_hostlist(names));
  } else if (!facts.cross_node.nodes.empty()) {
    text += fmt::format(", node {}", facts.cross_node.nodes.front());
  }
  return wrap(text, 0, 2) + "\n";
}

}  // namespace

std::string to_text(const Facts& facts, const Findings& findings) {
  std::string text = head_of(facts);
  for (const Section section : {Section::Slurm,
                                Section::Network,
                                Section::Rdma,
                                Section::Gpus,
                                Section::Software,
                                Section::Limits,
                                Section::Clock,
                                Section::HostEnvironment}) {
    bool is_first = true;
    for (const Finding& finding : findings) {
      if (finding.section != section) {
        continue;
      }
      text += is_first ? fmt::format("\n{}\n", title_of(section)) : "";
      is_first = false;
      text += line_of(finding, facts.nodes.size());
    }
  }
  const Counts counts = count(findings);
  return text + fmt::format("\nverdict: {}: {} broken, {}, {} ok\n",
                            name_of(worst_of(findings)),
                            counts.broken,
                            plural(counts.warning, "warning"),
                            counts.ok);
}

// Scripts parse this output, so the keys are stable, also when the structs are renamed.
std::string to_json(const Facts& facts, const Findings& findings) {
  using Json = nlohmann::ordered_json;
  const Counts counts = count(findings);
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"section", title_of(finding.section)},
                    {"verdict", name_of(finding.severity)},
                    {"subject", finding.subject},
                    {"text", finding.text},
                    {"source", finding.source},
                    {"nodes", finding.nodes},
                    {"advice", finding.advice},
                    {"table", finding.table}});
  }
  Json nodes = Json::array();
  for (const NodeFacts& node : facts.nodes) {
    nodes.push_back(Json(json_of(node)));
  }
  return Json{{"lockstep", facts.version},
              {"host", facts.host},
              {"is_quick", facts.is_quick},
              {"verdict", name_of(worst_of(findings))},
              {"counts",
               {{"broken", counts.broken}, {"warning", counts.warning}, {"ok", counts.ok}}},
              {"findings", list},
              {"slurm", json_of(facts.slurm)},
              // An older word for all workers; the name of the field is part of the format.
              {"gang", json_of(facts.cross_node)},
              {"nodes", nodes}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace lockstep::doctor
