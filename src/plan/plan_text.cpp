// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "base/text.h"
#include "plan/plan.h"

namespace lockstep::plan {
namespace {

struct Row {
  std::string name;
  std::string value;
  std::string source;
};

void add_variables(std::vector<Row>& rows, const Variables& variables) {
  for (const auto& [name, value] : variables) {
    rows.push_back({name, value.value, describe(value.source)});
  }
}

std::vector<Row> to_rows(const LaunchPlan& plan) {
  std::vector<std::string> words;
  std::transform(
      plan.command.begin(), plan.command.end(), std::back_inserter(words), quote_for_shell);
  std::vector<Row> rows = {
      {"command", join(words, " "), "command line"},
      {"run directory", plan.run_directory.value, describe(plan.run_directory.source)},
  };
  for (const Node& node : plan.nodes) {
    rows.push_back({fmt::format("workers on {}", node.name),
                    std::to_string(node.workers.value),
                    describe(node.workers.source)});
    add_variables(rows, node.variables);
  }
  rows.push_back({"master address", plan.master_addr.value, describe(plan.master_addr.source)});
  rows.push_back(
      {"master port", std::to_string(plan.master_port.value), describe(plan.master_port.source)});
  rows.push_back({"grace",
                  fmt::format("{} s", plan.grace_seconds.value),
                  describe(plan.grace_seconds.source)});
  rows.push_back(
      {"restarts", std::to_string(plan.max_restarts.value), describe(plan.max_restarts.source)});
  add_variables(rows, plan.variables);
  return rows;
}

}  // namespace

std::string describe(const LaunchPlan& plan) {
  constexpr size_t kWidest = 48;  // a longer value does not push every source to the right
  const std::vector<Row> rows = to_rows(plan);
  size_t name_width = 0;
  size_t value_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    value_width = std::max(value_width, std::min(row.value.size(), kWidest));
  }
  std::string text;
  for (const Row& row : rows) {
    text += fmt::format(
        "{:<{}}  {:<{}}  ({})\n", row.name, name_width, row.value, value_width, row.source);
  }
  return text;
}

}  // namespace lockstep::plan
