// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/rank_row.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"

// A row, with its widths in columns. The four bars share what remains, at most kWidestBar each; on
// a narrow terminal they vanish and the percentages stay:
//
//   "! " rank " " node step loss  GPU GPUmem CPU memory  age late
//    2    5   1  5-17  8    9     4 * (1 + bar + 5)       6   6
namespace lockstep::monitor {
namespace {

constexpr size_t kRank = 5;
constexpr size_t kShortestNode = 5;
constexpr size_t kLongestNode = 17;
constexpr size_t kStep = 8;
constexpr size_t kLoss = 9;
constexpr size_t kNumber = 5;  // next to a bar
constexpr size_t kAge = 6;
constexpr size_t kLate = 6;
constexpr size_t kWidestBar = 10;
constexpr size_t kGroups = 4;

const NodeView* find_node(const Snapshot& snapshot, const RankView& rank) {
  return rank.node < 0 ? nullptr : &snapshot.nodes[static_cast<size_t>(rank.node)];
}

std::optional<double> share(double part, double all) {
  return all > 0 ? std::optional(part / all) : std::nullopt;
}

std::string host_of(const Snapshot& snapshot, const RankView& rank) {
  const NodeView* node = find_node(snapshot, rank);
  return node == nullptr ? "-" : node->sample.host;
}

std::string age_text(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 86400;
  if (seconds < kMinute) {
    return fmt::format("{:.0f}s", std::floor(seconds));
  }
  if (seconds < kHour) {
    return fmt::format("{:.0f}m", std::floor(seconds / kMinute));
  }
  return seconds < 2 * kDay ? fmt::format("{:.0f}h", std::floor(seconds / kHour))
                            : fmt::format("{:.0f}d", std::floor(seconds / kDay));
}

// Depends on the wording of why_straggler in stragglers.cpp.
std::string late_text(const RankView& rank) {
  if (!rank.is_straggler) {
    return "";
  }
  return rank.why_straggler.starts_with("behind") ? fmt::format("-{}", rank.steps_behind) : "slow";
}

bool fits(const Snapshot& snapshot, const RankView& rank, const std::string& wanted) {
  const std::string row = fmt::format(
      "rank {} {} {} {}", rank.rank, host_of(snapshot, rank), late_text(rank), rank.why_straggler);
  return to_lower(row).find(wanted) != std::string::npos;
}

// Sorts in descending order, unknown values last. The sort is stable.
template <typename Value>
void sort_by(std::vector<const RankView*>& ranks, Value value) {
  std::stable_sort(ranks.begin(), ranks.end(), [&](const RankView* one, const RankView* other) {
    return value(*one).value_or(-INFINITY) > value(*other).value_or(-INFINITY);
  });
}

std::optional<double> negative(const std::optional<double>& value) {
  return value ? std::optional(-*value) : std::nullopt;
}

}  // namespace

// Cores and memory are granted to a node, not to a worker. The share of a worker is an equal part,
// which is how the launcher places workers; a worker can exceed it (more than 100 %).
Use use_of(const Snapshot& snapshot, const RankView& rank) {
  Use use;
  const NodeView* node = find_node(snapshot, rank);
  if (node == nullptr) {
    return use;
  }
  const contract::NodeSample& sample = node->sample;
  use.has_no_gpu = sample.gpus.empty();
  const double workers = std::max<double>(1, static_cast<double>(sample.workers.size()));
  if (rank.cores) {
    use.cpu = share(*rank.cores, sample.granted / workers);
  }
  if (rank.memory_bytes) {
    use.memory = share(static_cast<double>(*rank.memory_bytes),
                       static_cast<double>(sample.memory_limit_bytes) / workers);
  }
  double busy = 0;
  double busy_count = 0;
  double used = 0;
  double total = 0;
  for (const int index : rank.gpus) {
    const contract::GpuSample* gpu = find_gpu(*node, index);
    if (gpu != nullptr && gpu->utilisation) {
      busy += *gpu->utilisation;
      ++busy_count;
    }
    if (gpu != nullptr && gpu->memory_bytes && gpu->memory_total_bytes) {
      used += static_cast<double>(*gpu->memory_bytes);
      total += static_cast<double>(*gpu->memory_total_bytes);
    }
  }
  use.gpu = share(busy, busy_count);
  use.gpu_memory = share(used, total);
  return use;
}

std::vector<const RankView*> choose_ranks(const Snapshot& snapshot, const ScreenState& state) {
  std::vector<const RankView*> ranks;
  const std::string wanted = to_lower(state.filter);
  for (const RankView& rank : snapshot.ranks) {
    if (wanted.empty() || fits(snapshot, rank, wanted)) {
      ranks.push_back(&rank);
    }
  }
  switch (state.sort) {
    case Sort::Rank:
      break;
    case Sort::Step:  // the slowest rank first
      sort_by(ranks, [](const RankView& rank) {
        return rank.step < 0 ? std::nullopt : std::optional(-static_cast<double>(rank.step));
      });
      break;
    case Sort::Loss:
      sort_by(ranks, [](const RankView& rank) { return rank.loss; });
      break;
    case Sort::Gpu:  // the most idle rank first
      sort_by(ranks, [&](const RankView& rank) { return negative(use_of(snapshot, rank).gpu); });
      break;
    case Sort::Cpu:
      sort_by(ranks, [](const RankView& rank) { return rank.cores; });
      break;
    case Sort::Memory:
      sort_by(ranks, [](const RankView& rank) {
        return rank.memory_bytes ? std::optional(static_cast<double>(*rank.memory_bytes))
                                 : std::nullopt;
      });
      break;
    case Sort::Late:
      sort_by(ranks, [](const RankView& rank) { return rank.own_seconds; });
      std::stable_partition(
          ranks.begin(), ranks.end(), [](const RankView* rank) { return rank->is_straggler; });
      break;
  }
  return ranks;
}

RowLayout::RowLayout(const Snapshot& snapshot, size_t columns) : node_(kShortestNode) {
  for (const NodeView& node : snapshot.nodes) {
    node_ = std::clamp(columns_of(node.sample.host) + 1, node_, kLongestNode);
  }
  const size_t fixed =
      2 + kRank + 1 + node_ + kStep + kLoss + kGroups * (kNumber + 1) + kAge + kLate;
  if (columns > fixed) {
    bar_ = std::min(kWidestBar, (columns - fixed) / kGroups);
  }
}

std::string RowLayout::head() const {
  const size_t width = bar_ + kNumber + 1;
  return "  " + right("rank", kRank) + " " + left("node", node_) + right("step", kStep) +
         right("loss", kLoss) + " " + left("GPU", width) + left("GPUmem", width) +
         left("CPU", width) + left("memory", width - 1) + right("age", kAge) + right("late", kLate);
}

// " ████▌  81%"
std::string RowLayout::group(const std::optional<double>& share,
                             const std::string& fallback) const {
  constexpr double kPercent = 100;
  if (!share) {
    return " " + left(fallback, bar_ + kNumber);
  }
  return " " + bar(*share, bar_) + right(fmt::format("{:.0f}%", *share * kPercent), kNumber);
}

ScreenLine RowLayout::row(const Snapshot& snapshot, const RankView& rank, double now) const {
  const Use use = use_of(snapshot, rank);
  const std::string no_gpu = use.has_no_gpu ? (bar_ + kNumber < 6 ? "none" : "no GPU") : "-";
  std::string text = rank.is_straggler ? "! " : "  ";
  text += right(std::to_string(rank.rank), kRank) + " " + left(host_of(snapshot, rank), node_);
  text += right(rank.step < 0 ? "-" : std::to_string(rank.step), kStep);
  text += right(rank.loss ? fmt::format("{:.4g}", *rank.loss) : "-", kLoss);
  text += group(use.gpu, no_gpu);
  text += group(use.gpu_memory, use.has_no_gpu ? "" : "-");
  text += group(use.cpu, rank.cores ? fmt::format("{:.1f}", *rank.cores) : "-");
  text += group(use.memory, rank.memory_bytes ? short_bytes(*rank.memory_bytes) : "-");
  text += right(rank.has_ended  ? "done"
                : rank.time > 0 ? age_text(std::max(0.0, now - rank.time))
                                : "-",
                kAge);
  text += right(late_text(rank), kLate);
  return {.text = std::move(text),
          .style = rank.is_straggler ? ScreenLine::Style::Alarm : ScreenLine::Style::Plain};
}

}  // namespace lockstep::monitor
