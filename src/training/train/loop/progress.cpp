// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/progress.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>

#include "common/base/text.h"

namespace lockstep::train {
namespace {

std::string format_percent(double share) {
  return fmt::format("{:.2f} %", share * 100);
}

std::string format_figures(const ProgressView& view) {
  std::string text = fmt::format("loss {:.4f}", view.loss);
  if (view.accuracy) {
    text += fmt::format("  accuracy {}", format_percent(*view.accuracy));
  }
  if (view.samples_per_second > 0) {
    text += fmt::format("  {} samples/s  {} left",
                        format_rate(view.samples_per_second),
                        format_duration(view.seconds_left));
  }
  return text;
}

double share_done(const ProgressView& view) {
  return view.steps_per_epoch == 0
             ? 1
             : static_cast<double>(view.step_in_epoch) / static_cast<double>(view.steps_per_epoch);
}

}  // namespace

// The bar takes what is left between text parts, 8 to 40 columns, or is left out. A line must never
// reach the last column, where some terminals wrap.
std::string format_bar(const ProgressView& view, int columns) {
  const std::string head = fmt::format("epoch {}/{} ", view.epoch, view.epochs);
  const std::string tail =
      fmt::format(" {:3.0f} %  {}", share_done(view) * 100, format_figures(view));
  // Minus the two brackets. head and tail are ASCII, so that bytes are columns.
  const int room = columns - static_cast<int>(head.size() + tail.size()) - 2;
  std::string bar;
  if (room >= 8) {
    const int width = std::min(room, 40);
    const int done = static_cast<int>(share_done(view) * width);
    const std::string full(static_cast<size_t>(done), '=');
    bar = fmt::format("[{:<{}}]", done < width ? full + ">" : full, width);
  }
  return fmt::format("{}{}{}", head, bar, tail)
      .substr(0, static_cast<size_t>(std::max(1, columns)));
}

std::string format_line(const ProgressView& view) {
  return fmt::format("epoch {}/{}  step {}/{}  {}",
                     view.epoch,
                     view.epochs,
                     view.step_in_epoch,
                     view.steps_per_epoch,
                     format_figures(view));
}

std::string format_accuracy(const Evaluation& evaluation) {
  return format_percent(*evaluation.accuracy) +
         (evaluation.top5 ? ", top-5 " + format_percent(*evaluation.top5) : "");
}

std::string format_table(const std::vector<EpochSummary>& epochs) {
  const bool has_top5 = std::any_of(epochs.begin(), epochs.end(), [](const EpochSummary& row) {
    return row.test && row.test->top5;
  });
  const int width = has_top5 ? 11 : 0;
  std::string text = fmt::format("{:>6}{:>13}{:>12}{:>16}{:>{}}{:>12}{:>14}\n",
                                 "epoch",
                                 "train loss",
                                 "test loss",
                                 "test accuracy",
                                 has_top5 ? "top-5" : "",
                                 width,
                                 "samples/s",
                                 "time");
  for (const EpochSummary& row : epochs) {
    const Evaluation test = row.test.value_or(Evaluation{});
    text += fmt::format("{:>6}{:>13.4f}{:>12}{:>16}{:>{}}{:>12}{:>14}\n",
                        row.epoch,
                        row.train_loss,
                        row.test ? fmt::format("{:.4f}", row.test->loss) : "-",
                        test.accuracy ? format_percent(*test.accuracy) : "-",
                        test.top5 ? format_percent(*test.top5) : (has_top5 ? "-" : ""),
                        width,
                        format_rate(row.samples_per_second),
                        format_duration(row.seconds));
  }
  return text;
}

std::string format_rate(double per_second) {
  constexpr double kFew = 10;
  if (per_second <= 0) {
    return "-";
  }
  return per_second < kFew ? fmt::format("{:.1f}", per_second)
                           : format_count(static_cast<int64_t>(per_second));
}

std::string format_speed(double samples_per_second, int64_t steps, double seconds) {
  return fmt::format("{} samples/s, {} in {}",
                     format_rate(samples_per_second),
                     plural(steps, "step"),
                     format_duration(seconds));
}

Progress::Progress(const SessionParts& session, double seconds_between_lines)
    : prints_(session.communicator->rank() == 0),
      columns_(session.terminal_columns),
      draws_itself_(session.is_terminal_ours),
      interval_(seconds_between_lines),
      next_line_(std::chrono::steady_clock::now() +
                 std::chrono::duration_cast<std::chrono::steady_clock::duration>(interval_)) {}

// Two cases with a terminal: this process draws itself and must erase the old line, or the agent
// draws and recognizes the line by its carriage return. Without a terminal, lines are limited by
// time, so that log files stay short.
void Progress::update(const ProgressView& view) {
  if (!prints_) {
    return;
  }
  if (columns_) {
    fmt::print("{}{}\r", draws_itself_ ? "\x1b[2K" : "", format_bar(view, *columns_ - 1));
    std::fflush(stdout);
    return;
  }
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_line_) {
    next_line_ = now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(interval_);
    say(format_line(view));
  }
}

// A permanent line replaces the bar, which the next update draws again below it.
void Progress::say(const std::string& line) {
  if (!prints_) {
    return;
  }
  fmt::print("{}{}\n", columns_ && draws_itself_ ? "\x1b[2K" : "", line);
  std::fflush(stdout);
}

}  // namespace lockstep::train
