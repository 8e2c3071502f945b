// SPDX-License-Identifier: Apache-2.0
//
// The table of --dry-run: name, value, source. It shows decisions, not all fields: most defaults
// are left out.
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <span>

#include "common/base/text.h"
#include "common/contract/enum_names.h"
#include "common/os/signals.h"
#include "launcher/plan/hostlist_format.h"
#include "launcher/plan/plan.h"

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

std::string describe_command(const LaunchPlan& plan) {
  std::vector<std::string> words;
  std::transform(
      plan.command.begin(), plan.command.end(), std::back_inserter(words), quote_for_shell);
  if (plan.passes_local_rank) {
    words.insert(words.begin() + plan.program_word + 1, plan.local_rank_option + "=LOCAL_RANK");
  }
  return join(words, " ");
}

// Names are not compared, but named and unnamed nodes are not mixed in one line.
bool are_alike(const PlannedNode& one, const PlannedNode& other) {
  return one.workers == other.workers && one.variables == other.variables &&
         one.gpus == other.gpus && one.name.empty() == other.name.empty();
}

std::string describe_workers(const LaunchPlan& plan, const PlannedNode& node, bool is_each) {
  if (node.workers.value == 0) {
    switch (plan.worker_rule) {
      case WorkerRule::Gpu:
        return "one worker per GPU, counted on the node";
      case WorkerRule::Cpu:
        return "one worker per granted core, counted on the node";
      default:
        return "one worker per GPU or granted core, counted on the node";
    }
  }
  return fmt::format("{} {}{}",
                     node.workers.value,
                     node.workers.value == 1 ? "worker" : "workers",
                     is_each ? " each" : "");
}

// Adjacent nodes with equal settings share a line: "n[1-4]: 4 workers each".
std::string describe_group(const LaunchPlan& plan, std::span<const PlannedNode> group) {
  std::vector<std::string> names;
  for (const PlannedNode& node : group) {
    if (!node.name.empty()) {
      names.push_back(node.name);
    }
  }
  std::string nodes = to_hostlist(names);
  if (names.empty()) {
    nodes = group.size() == 1 ? "a node that will join"
                              : fmt::format("{} nodes that will join", group.size());
  }
  std::string text =
      fmt::format("{}: {}", nodes, describe_workers(plan, group.front(), group.size() > 1));
  if (!group.front().gpus.empty()) {
    text += fmt::format(", GPUs {}", fmt::join(group.front().gpus, ","));
  }
  return text;
}

void add_nodes(std::vector<Row>& rows, const LaunchPlan& plan) {
  for (size_t first = 0; first < plan.nodes.size();) {
    size_t last = first + 1;
    while (last < plan.nodes.size() && are_alike(plan.nodes[first], plan.nodes[last])) {
      ++last;
    }
    const PlannedNode& node = plan.nodes[first];
    rows.push_back({first == 0 ? "nodes" : "",
                    describe_group(plan, std::span(plan.nodes).subspan(first, last - first)),
                    describe(node.workers.source)});
    add_variables(rows, node.variables);
    first = last;
  }
  if (plan.min_nodes.value < static_cast<int>(plan.nodes.size())) {
    rows.push_back(
        {"minimum nodes", std::to_string(plan.min_nodes.value), describe(plan.min_nodes.source)});
  }
}

void add_rendezvous(std::vector<Row>& rows, const LaunchPlan& plan) {
  const Rendezvous& rendezvous = plan.rendezvous;
  if (plan.mode.value == LaunchMode::Task) {
    rows.push_back({"this process",
                    fmt::format("rank {} of {}, local rank {} of {}",
                                rendezvous.rank,
                                rendezvous.world_size,
                                rendezvous.local_rank,
                                rendezvous.local_world_size),
                    describe(plan.mode.source)});
  }
  if (plan.mode.value == LaunchMode::Peers) {
    rows.push_back(
        {"this process",
         rendezvous.node ? fmt::format("node {}", *rendezvous.node) : "node in order of arrival",
         describe(plan.mode.source)});
  }
  if (!rendezvous.name.empty()) {
    rows.push_back(
        {"rendezvous",
         rendezvous.host.empty()
             ? rendezvous.name
             : fmt::format("{} at {} port {}", rendezvous.name, rendezvous.host, rendezvous.port),
         describe(plan.mode.source)});
  }
}

template <typename T>
Row to_row(std::string name, std::string value, const Sourced<T>& sourced) {
  return {std::move(name), std::move(value), describe(sourced.source)};
}

// Adds a row only if the value is not a default: defaults would hide the rest of the table.
template <typename T>
void add_option_facts(std::vector<Row>& rows,
                      std::string name,
                      std::string value,
                      const Sourced<T>& sourced) {
  if (sourced.source.kind != ValueSource::Default) {
    rows.push_back(to_row(std::move(name), std::move(value), sourced));
  }
}

void add_network(std::vector<Row>& rows, const LaunchPlan& plan) {
  const std::string& address = plan.master_addr.value;
  const int port = plan.master_port.value;
  rows.push_back(to_row("master address",
                        address.empty() ? "chosen after the rendezvous" : address,
                        plan.master_addr));
  rows.push_back(to_row(
      "master port", port == 0 ? "a free port on node 0" : std::to_string(port), plan.master_port));
  add_option_facts(rows, "interfaces", plan.interfaces.value, plan.interfaces);
  add_option_facts(rows, "own address", plan.local_addr.value, plan.local_addr);
  add_option_facts(rows, "ssh port", std::to_string(plan.ssh_port.value), plan.ssh_port);
  add_option_facts(rows, "ssh identity", plan.ssh_identity.value, plan.ssh_identity);
  if (plan.mode.value != LaunchMode::Local) {
    rows.push_back(to_row("start timeout",
                          fmt::format("{} s", plan.start_timeout_seconds.value),
                          plan.start_timeout_seconds));
  }
  if (plan.min_nodes.value < static_cast<int>(plan.nodes.size())) {
    rows.push_back(to_row(
        "last call", fmt::format("{} s", plan.last_call_seconds.value), plan.last_call_seconds));
  }
}

std::string describe_streams(const StreamRule& rule) {
  constexpr std::array<std::string_view, 4> kStreams = {"none", "stdout", "stderr", "both"};
  std::vector<std::string> pieces;
  for (const auto& [local, bits] : rule.by_local) {
    pieces.push_back(fmt::format("{}: {}", local, kStreams.at(static_cast<size_t>(bits))));
  }
  if (rule.by_local.empty()) {
    return std::string(kStreams.at(static_cast<size_t>(rule.fallback)));
  }
  return join(pieces, ", ");
}

void add_output(std::vector<Row>& rows, const LaunchPlan& plan) {
  const OutputRules& output = plan.output;
  if (!output.log_dir.empty()) {
    const bool is_ours = output.log_dir.starts_with(plan.run_directory.value + "/");
    rows.push_back({"log directory", output.log_dir, is_ours ? "default" : "flag --log-dir"});
  }
  if (output.redirects != StreamRule{}) {
    rows.push_back({"to files only", describe_streams(output.redirects), "flag --redirects"});
  }
  if (output.tee != StreamRule{}) {
    rows.push_back({"to files too", describe_streams(output.tee), "flag --tee"});
  }
  if (!output.local_ranks_filter.empty()) {
    rows.push_back({"local ranks shown",
                    fmt::format("{}", fmt::join(output.local_ranks_filter, ",")),
                    "flag --local-ranks-filter"});
  }
  if (!output.output_filename.empty()) {
    rows.push_back({"output files", output.output_filename, "flag --output-filename"});
  }
  for (const Metric& metric : plan.metrics) {
    rows.push_back({"metric", metric.name + "=" + metric.pattern, "flag --metric"});
  }
  add_option_facts(rows,
                   "sample every",
                   fmt::format("{} s", plan.sample_every_seconds.value),
                   plan.sample_every_seconds);
}

void add_requeue(std::vector<Row>& rows, const std::optional<RequeueRules>& rules) {
  if (!rules) {
    return;
  }
  rows.push_back(
      to_row("requeue",
             fmt::format("job {} at {}", rules->job, os::signal_name(rules->signal.value)),
             rules->signal));
  add_option_facts(rows, "requeues", std::to_string(rules->maximum.value), rules->maximum);
  if (!rules->progress_file.empty()) {
    rows.push_back({"progress file", rules->progress_file, "flag --progress-file"});
  }
}

std::vector<Row> to_rows(const LaunchPlan& plan) {
  std::vector<Row> rows = {{"command", describe_command(plan), "command line"}};
  rows.push_back(to_row("run directory", plan.run_directory.value, plan.run_directory));
  rows.push_back(to_row("launch mode", std::string(describe(plan.mode.value)), plan.mode));
  add_nodes(rows, plan);
  add_rendezvous(rows, plan);
  add_network(rows, plan);
  rows.push_back(to_row("bind", std::string(to_string(plan.bind.value)), plan.bind));
  add_option_facts(rows, "role", plan.role.value, plan.role);
  rows.push_back(
      to_row("grace", fmt::format("{} s", plan.grace_seconds.value), plan.grace_seconds));
  add_option_facts(
      rows, "timeout", fmt::format("{} s", plan.timeout_seconds.value), plan.timeout_seconds);
  rows.push_back(to_row("restarts", std::to_string(plan.max_restarts.value), plan.max_restarts));
  add_requeue(rows, plan.requeue);
  if (plan.may_share_gpus) {
    rows.push_back({"GPUs",
                    plan.starts_mps ? "may be shared; each agent starts MPS" : "may be shared",
                    "flag --share-gpus"});
  }
  add_output(rows, plan);
  add_variables(rows, plan.variables);
  return rows;
}

}  // namespace

std::string_view describe(LaunchMode mode) {
  switch (mode) {
    case LaunchMode::Local:
      return "on this machine";
    case LaunchMode::Srun:
      return "agents started by one srun";
    case LaunchMode::Ssh:
      return "agents started over ssh";
    case LaunchMode::Peers:
      return "one launcher per node";
    case LaunchMode::Task:
      return "one launcher per worker";
  }
  return "";
}

std::string describe(const LaunchPlan& plan) {
  constexpr size_t kWidest = 48;  // longer values do not push all sources to the right
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
  for (const std::string& remark : plan.remarks) {
    text += fmt::format("note: {}\n", remark);
  }
  return text;
}

}  // namespace lockstep::plan
