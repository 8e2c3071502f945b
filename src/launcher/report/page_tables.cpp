// SPDX-License-Identifier: Apache-2.0
// The tables of a page.
#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"
#include "launcher/report/advice_rules.h"
#include "launcher/report/page.h"

namespace lockstep::report {
namespace {

using monitor::GpuTotals;
using monitor::HostTotals;

Cell share_cell(const std::optional<double>& share) {
  return share ? Cell{.text = percent(*share), .share = share} : Cell{.text = "-"};
}

Cell plain_share(const std::optional<double>& share) {
  return {.text = share ? percent(*share) : "-"};
}

std::string bytes_of(int64_t bytes) {
  return monitor::short_bytes(bytes);
}

// "12.0G of 80.0G" with a bar; "-" if it is unknown.
Cell use_cell(const std::optional<int64_t>& used, int64_t limit) {
  if (!used) {
    return {.text = "-"};
  }
  if (limit <= 0) {
    return {.text = bytes_of(*used)};
  }
  return {.text = fmt::format("{} of {}", bytes_of(*used), bytes_of(limit)),
          .share = static_cast<double>(*used) / static_cast<double>(limit)};
}

std::string ranks_of(const GpuTotals& gpu) {
  if (gpu.ranks.empty()) {
    return "none";
  }
  const int first = gpu.ranks.begin()->first;
  const int last = gpu.ranks.rbegin()->first;
  return first == last ? std::to_string(first) : fmt::format("{}-{}", first, last);
}

struct HostGpu {
  const HostTotals* host;
  const GpuTotals* gpu;
};

std::vector<HostGpu> all_gpus(const RunFacts& facts) {
  std::vector<HostGpu> all;
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const HostTotals& host : node.hosts) {
      for (const GpuTotals& gpu : host.gpus) {
        all.push_back({.host = &host, .gpu = &gpu});
      }
    }
  }
  return all;
}

std::string number(const std::optional<double>& value, std::string_view unit) {
  return value ? fmt::format("{:.0f} {}", *value, unit) : "-";
}

// A table of thousands of rows helps no reader. The GPUs that are kept are the least used ones,
// because these need attention; nodes and ranks keep their order.
std::string rest_of(size_t all, std::string_view which) {
  return all <= kMaxRows
             ? ""
             : fmt::format("{} of {} shown, {}; --json lists all", kMaxRows, all, which);
}

// RankView::node is the node of the last sample, so the last host of that node is meant.
const HostTotals* host_of(const RunFacts& facts, const monitor::RankView& rank) {
  if (rank.node < 0) {
    return nullptr;
  }
  const auto& hosts = facts.run.nodes[static_cast<size_t>(rank.node)].hosts;
  return hosts.empty() ? nullptr : &hosts.back();
}

constexpr double kNotable = 0.02;  // minimum difference of the worst share from the mean

struct Part {
  const char* name;
  std::optional<double> Split::*share;
};

constexpr std::array kParts = {Part{"data", &Split::data},
                               Part{"compute", &Split::compute},
                               Part{"exchange", &Split::exchange},
                               Part{"update", &Split::update},
                               Part{"checkpoint", &Split::checkpoint},
                               Part{"other", &Split::other}};

// The loopback is omitted: its bytes never leave the node.
std::vector<Cell> node_row(const HostTotals& host) {
  monitor::InterfaceTotals sum;
  std::string busiest = "-";
  int64_t maximum = 0;
  for (const auto& [name, bytes] : host.interfaces) {
    if (name == "lo") {
      continue;
    }
    sum.received_bytes += bytes.received_bytes;
    sum.sent_bytes += bytes.sent_bytes;
    if (bytes.received_bytes + bytes.sent_bytes > maximum) {
      maximum = bytes.received_bytes + bytes.sent_bytes;
      busiest = name;
    }
  }
  const auto busy = host.worker_cores.mean();
  const Cell cores = busy && host.granted > 0
                         ? Cell{.text = fmt::format("{:.1f} of {}", *busy, host.granted),
                                .share = *busy / host.granted}
                         : Cell{.text = "-"};
  return {{.text = host.host},
          cores,
          use_cell(host.peak_memory_bytes, host.memory_limit_bytes),
          {.text = bytes_of(sum.received_bytes)},
          {.text = bytes_of(sum.sent_bytes)},
          {.text = busiest}};
}

}  // namespace

Section describe_gpus(const RunFacts& facts) {
  Section section{.title = "GPUs"};
  std::vector<HostGpu> all = all_gpus(facts);
  if (all.empty()) {
    return section;
  }
  section.head = {"node", "GPU", "ranks", "utilization", "peak memory", "power", "peak temp."};
  section.remark = rest_of(all.size(), "the least used");
  if (all.size() > kMaxRows) {
    std::stable_sort(all.begin(), all.end(), [](const HostGpu& one, const HostGpu& other) {
      return one.gpu->utilisation.mean().value_or(0) < other.gpu->utilisation.mean().value_or(0);
    });
    all.resize(kMaxRows);
  }
  section.rows.reserve(all.size());
  for (const HostGpu& one : all) {
    const GpuTotals& gpu = *one.gpu;
    section.rows.push_back(
        {{.text = one.host->host},
         {.text = std::to_string(gpu.last.index)},
         {.text = ranks_of(gpu)},
         share_cell(gpu.utilisation.mean()),
         use_cell(gpu.peak_memory_bytes, gpu.last.memory_total_bytes.value_or(0)),
         {.text = number(gpu.power_watts.mean(), "W")},
         {.text = number(gpu.hottest, "C")}});
  }
  const std::string model = all.front().gpu->last.name;
  if (!model.empty()) {
    section.lines.emplace_back("model", Cell{.text = model});
  }
  return section;
}

Section describe_nodes(const RunFacts& facts) {
  Section section{.title = "Nodes"};
  section.head = {"node", "busy cores", "peak memory", "received", "sent", "main interface"};
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const HostTotals& host : node.hosts) {
      section.rows.push_back(node_row(host));
    }
  }
  section.remark = rest_of(section.rows.size(), "the first");
  section.rows.resize(std::min(section.rows.size(), kMaxRows));
  return section;
}

// The columns compare rank 0 with the mean, because rank 0 also writes reports and checkpoints and
// is often not typical.
Section describe_split(const RunFacts& facts) {
  Section section{.title = "Time breakdown"};
  if (facts.split.ranks == 0) {
    return section;
  }
  section.head = {"phase", "rank 0", "all ranks, mean", "worst"};
  for (const Part& part : kParts) {
    const auto& leader = facts.split.leader.*part.share;
    const auto& mean = facts.split.mean.*part.share;
    if (!leader && !mean) {
      continue;
    }
    std::string worst;
    const std::string_view name = part.name;
    const auto& found = name == "data" ? facts.split.data : facts.split.exchange;
    const bool has_worst = name == "data" || name == "exchange";
    if (has_worst && found && found->share >= mean.value_or(0) + kNotable) {
      worst = fmt::format("{} on rank {}", percent(found->share), found->rank);
    }
    section.rows.push_back(
        {{.text = part.name}, share_cell(leader), share_cell(mean), {.text = worst}});
  }
  if (!facts.split.mean.exchange) {
    section.remark = "compute includes the gradient exchange, which is not reported separately";
  }
  return section;
}

Section describe_slow_ranks(const RunFacts& facts) {
  Section section{.title = "Slowest ranks"};
  if (facts.slow.empty()) {
    return section;
  }
  section.head = {"rank", "node", "own step time", "slow during", "since"};
  section.rows.reserve(facts.slow.size());
  for (const SlowRank& slow : facts.slow) {
    section.rows.push_back({{.text = std::to_string(slow.rank)},
                            {.text = slow.host.empty() ? "-" : slow.host},
                            {.text = fmt::format("{} % of the median", slow.percent)},
                            {.text = fmt::format("{} of the run", percent(slow.share))},
                            {.text = slow.since ? fmt::format("{} after the start",
                                                              format_duration(std::max(
                                                                  0.0, *slow.since - facts.begin)))
                                                : "not slow at the end"}});
  }
  return section;
}

Section describe_ranks(const RunFacts& facts) {
  Section section{.title = "Ranks"};
  section.head = {"rank", "node", "steps", "busy cores", "peak memory"};
  const bool has_split = facts.split.ranks > 0;
  if (has_split) {
    section.head.insert(section.head.end(), {"data", "compute", "exchange", "update"});
  }
  const size_t count = std::min(facts.run.ranks.size(), kMaxRows);
  section.rows.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const monitor::RankView& rank = facts.run.ranks[i];
    const HostTotals* host = host_of(facts, rank);
    const auto cores = rank.totals.cores.mean();
    std::vector<Cell> row = {
        {.text = std::to_string(rank.rank)},
        {.text = host == nullptr ? "-" : host->host},
        {.text = rank.totals.steps > 0 ? format_count(rank.totals.steps) : "-"},
        {.text = cores ? fmt::format("{:.1f}", *cores) : "-"},
        use_cell(rank.peak_memory_bytes, 0)};
    if (has_split) {
      const Split split = split_of(rank.totals).value_or(Split{});
      row.push_back(plain_share(split.data));
      row.push_back(plain_share(split.compute));
      row.push_back(plain_share(split.exchange));
      row.push_back(plain_share(split.update));
    }
    section.rows.push_back(std::move(row));
  }
  section.remark = rest_of(facts.run.ranks.size(), "the first");
  return section;
}

}  // namespace lockstep::report
