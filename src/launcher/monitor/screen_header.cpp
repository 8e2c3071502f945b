// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/screen_header.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/monitor/drawing.h"

namespace lockstep::monitor {
namespace {

// Time without an update of any file after which the screen shows a warning. Three missed
// heartbeats of the leader (contract::kHeartbeatSeconds is 5). Half of the time after which a run
// counts as lost, so the warning comes first.
constexpr double kSilentSeconds = 15;

std::string joined(const std::vector<std::string>& pieces) {
  return join(pieces, "  ");
}

ScreenLine title(const Snapshot& snapshot) {
  std::vector<std::string> pieces = {snapshot.run_id.empty() ? snapshot.directory
                                                             : snapshot.run_id};
  if (!snapshot.job.empty()) {
    pieces.push_back("job " + snapshot.job);
  }
  if (!snapshot.phase.empty()) {
    pieces.push_back(snapshot.exit_code && *snapshot.exit_code != 0
                         ? fmt::format("{} (exit code {})", snapshot.phase, *snapshot.exit_code)
                         : snapshot.phase);
  }
  std::string workers = snapshot.strategy;
  if (snapshot.world_size > 0) {
    workers += (workers.empty() ? "" : ", ") + plural(snapshot.world_size, "worker");
  }
  if (!snapshot.nodes.empty()) {
    workers += fmt::format(" on {}", plural(static_cast<int64_t>(snapshot.nodes.size()), "node"));
  }
  if (!workers.empty()) {
    pieces.push_back(workers);
  }
  if (snapshot.restarts > 0) {
    pieces.push_back(plural(snapshot.restarts, "restart"));
  }
  return {.text = joined(pieces), .style = ScreenLine::Style::Title};
}

ScreenLine progress(const Snapshot& snapshot) {
  if (snapshot.step < 0) {
    return {.text = "no step yet"};
  }
  std::vector<std::string> pieces;
  if (snapshot.epoch) {
    pieces.push_back(fmt::format("epoch {:.4g}", *snapshot.epoch));
  }
  pieces.push_back(snapshot.steps > 0 ? fmt::format("step {} of {}", snapshot.step, snapshot.steps)
                                      : fmt::format("step {}", snapshot.step));
  if (snapshot.loss) {
    pieces.push_back(fmt::format("loss {:.4g}", *snapshot.loss));
  }
  if (snapshot.samples_per_second) {
    pieces.push_back(format_count(static_cast<int64_t>(*snapshot.samples_per_second)) +
                     " samples/s");
  }
  if (snapshot.step_seconds) {
    pieces.push_back(fmt::format("{:.3g} s/step", *snapshot.step_seconds));
  }
  if (snapshot.seconds_left) {
    pieces.push_back(format_duration(*snapshot.seconds_left) + " left");
  }
  return {.text = joined(pieces)};
}

// How a rank spends its time; empty if it does not report it.
std::string share_text(const TimeSplit& split) {
  const double all = split.data.value_or(0) + split.compute.value_or(0) +
                     split.exchange.value_or(0) + split.checkpoint.value_or(0);
  if (!split.compute || all <= 0) {
    return "";
  }
  constexpr double kPercent = 100;
  return fmt::format(
      "rank 0 time: data {:.0f}%, compute {:.0f}%, exchange {:.0f}%, checkpoint {:.0f}%",
      split.data.value_or(0) / all * kPercent,
      *split.compute / all * kPercent,
      split.exchange.value_or(0) / all * kPercent,
      split.checkpoint.value_or(0) / all * kPercent);
}

// Values that change slowly.
ScreenLine details(const Snapshot& snapshot, double now) {
  std::vector<std::string> pieces;
  if (snapshot.learning_rate) {
    pieces.push_back(fmt::format("learning rate {:.4g}", *snapshot.learning_rate));
  }
  if (snapshot.gradient_norm) {
    pieces.push_back(fmt::format("gradient norm {:.4g}", *snapshot.gradient_norm));
  }
  if (snapshot.accuracy) {
    pieces.push_back(fmt::format("accuracy {:.4g}", *snapshot.accuracy));
  }
  if (snapshot.checkpoint_time > 0) {
    pieces.push_back(fmt::format("checkpoint step {}, {} ago",
                                 snapshot.checkpoint_step,
                                 format_duration(std::max(0.0, now - snapshot.checkpoint_time))));
  }
  return {.text = joined(pieces), .style = ScreenLine::Style::Faint};
}

ScreenLine loss_line(const std::vector<Point>& loss, const ScreenSize& size) {
  std::vector<double> values;
  const size_t room = curve_columns(size);
  for (size_t i = loss.size() > room ? loss.size() - room : 0; i < loss.size(); ++i) {
    values.push_back(loss[i].mean);
  }
  return {.text = fmt::format(
              "loss {:.4g} {} {:.4g}", loss.front().mean, curve(values), loss.back().mean)};
}

// The worst one is the straggler with the largest own step time. There is at least one straggler.
ScreenLine straggler_line(const Snapshot& snapshot, int64_t count) {
  const auto worst = std::max_element(
      snapshot.ranks.begin(), snapshot.ranks.end(), [](const RankView& one, const RankView& other) {
        return std::pair(one.is_straggler, one.own_seconds.value_or(0)) <
               std::pair(other.is_straggler, other.own_seconds.value_or(0));
      });
  return {.text = fmt::format("{}: rank {} is {}{}",
                              plural(count, "straggler"),
                              worst->rank,
                              worst->why_straggler,
                              count > 1 ? " ..." : ""),
          .style = ScreenLine::Style::Alarm};
}

}  // namespace

std::vector<ScreenLine> header_lines(const Snapshot& snapshot,
                                     const std::vector<Point>& loss,
                                     const ScreenSize& size,
                                     double now) {
  std::vector<ScreenLine> lines = {title(snapshot), progress(snapshot)};
  if (ScreenLine line = details(snapshot, now); !line.text.empty()) {
    lines.push_back(std::move(line));
  }
  if (!snapshot.ranks.empty() && snapshot.ranks.front().rank == 0) {
    const std::string shares = share_text(snapshot.ranks.front().split);
    if (!shares.empty()) {
      lines.push_back({.text = shares, .style = ScreenLine::Style::Faint});
    }
  }
  if (loss.size() > 1) {
    lines.push_back(loss_line(loss, size));
  }
  const auto stragglers = std::count_if(snapshot.ranks.begin(),
                                        snapshot.ranks.end(),
                                        [](const RankView& rank) { return rank.is_straggler; });
  if (stragglers > 0) {
    lines.push_back(straggler_line(snapshot, stragglers));
  }
  const double silence = now - snapshot.updated;
  if (!snapshot.ended && snapshot.updated > 0 && silence > kSilentSeconds) {
    lines.push_back(
        {.text = "no update for " + format_duration(silence), .style = ScreenLine::Style::Alarm});
  }
  return lines;
}

}  // namespace lockstep::monitor
