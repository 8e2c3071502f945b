// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <optional>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/os/environment.h"
#include "common/os/pipe.h"
#include "common/os/signals.h"
#include "common/os/standard_streams.h"
#include "common/os/terminal.h"
#include "launcher/cli/runs/watched_run.h"
#include "launcher/cli/subcommands.h"
#include "launcher/monitor/event_store.h"
#include "launcher/monitor/keys.h"
#include "launcher/monitor/screen.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Watch a run live: one row per rank\n"
    "\n"
    "Usage:\n"
    "  lockstep watch [OPTIONS] [RUN | JOBID]\n"
    "\n"
    "RUN is a run directory or a name below ./runs, JOBID a Slurm job with a run. The\n"
    "command only reads the run directory: it works on every node that can access it,\n"
    "during and after the run. If stdout is not a terminal, the page is printed again\n"
    "whenever it changes.";

constexpr const char* kFooter =
    "Keys:\n"
    "  q            quit\n"
    "  s            sort by the next column\n"
    "  /            show only rows that contain a text; end with Enter, Escape clears\n"
    "  up, down     scroll; also page up, page down, home, end\n"
    "  ?            explain the columns\n"
    "\n"
    "Examples:\n"
    "  lockstep watch\n"
    "  lockstep watch --sort late 4711\n"
    "  lockstep watch --once --filter node-7 runs/train-20240131-093000-1a2b\n"
    "\n"
    "Exit codes:\n"
    "  0    quit by the user, or end of the run if stdout is not a terminal\n"
    "  64   unknown run or job; the message suggests one\n"
    "  69   Slurm is not installed or does not respond\n"
    "  130  Ctrl-C\n"
    "\n"
    "Files:\n"
    "  RUN/events/    events of workers and agents, see docs/events.md\n";

struct WatchOptions {
  std::string run;
  std::string sort = "rank";
  std::string filter;
  double every = 1;
  bool is_once = false;
};

constexpr double kEver = std::numeric_limits<double>::infinity();
constexpr size_t kPlainColumns = 100;

std::vector<monitor::ScreenLine> picture(const monitor::EventStore& store,
                                         const monitor::ScreenState& state,
                                         const monitor::ScreenSize& size) {
  const auto names = store.series("loss", -kEver, kEver, monitor::curve_columns(size));
  const auto loss = !names.empty()
                        ? names
                        : store.series("output/loss", -kEver, kEver, monitor::curve_columns(size));
  return render_screen(store.snapshot(), loss, state, size, wall_time());
}

// The lines with escape sequences: each begins in column 1 and clears the rest of its row. Draws
// over the previous picture instead of clearing the screen first, which would flicker. The whole
// picture is one write. \x1b[K clears the rest of a row, \x1b[J the rows below the last one.
std::string drawn(const std::vector<monitor::ScreenLine>& lines) {
  using Style = monitor::ScreenLine::Style;
  std::string text = "\x1b[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    const char* style = "";
    switch (lines[i].style) {
      case Style::Plain:
        break;
      case Style::Title:
        style = "\x1b[1m";
        break;
      case Style::Head:
        style = "\x1b[7m";
        break;
      case Style::Alarm:
        style = "\x1b[1;31m";
        break;
      case Style::Faint:
        style = "\x1b[2m";
        break;
    }
    text += fmt::format("{}{}{}\x1b[0m\x1b[K", i == 0 ? "" : "\r\n", style, lines[i].text);
  }
  return text + "\x1b[J";
}

std::chrono::milliseconds pause_of(const WatchOptions& options) {
  constexpr double kThousand = 1000;
  return std::chrono::milliseconds(std::lround(options.every * kThousand));
}

// Handles pending signals; returns one that ends the command. SIGWINCH needs no action: it has
// ended the wait, and the next picture uses the new size. SIGTSTP is handled here, because the
// terminal must be restored before the process stops.
std::optional<int> heed(os::SignalFd& signals, os::FullScreen& screen) {
  std::optional<int> stopped;
  while (const auto signal = signals.find_pending()) {
    if (*signal == SIGTSTP) {
      screen.suspend();
    } else if (*signal != SIGWINCH) {
      stopped = signal;
    }
  }
  return stopped;
}

// Returns false at the end of standard input.
bool press_keys(monitor::ScreenState& state) {
  constexpr size_t kMaximum = 256;
  std::string bytes;
  if (os::read_some(0, bytes, kMaximum) == os::ReadResult::End) {
    return false;
  }
  for (const std::string& key : monitor::keys_of(bytes)) {
    monitor::press(state, key);
  }
  return true;
}

// Shows the page until the user quits; returns the exit code. Signals are descriptors here, so that
// the destructor of FullScreen always restores the terminal: an uncaught signal would leave it in
// raw mode.
int watch_live(monitor::EventStore& store,
               monitor::ScreenState state,
               const WatchOptions& options) {
  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH});
  os::FullScreen screen(0, 1);
  std::optional<int> stopped;
  using Clock = std::chrono::steady_clock;
  Clock::time_point looked = Clock::now();
  while (!state.is_left && !stopped) {
    const auto size = os::find_terminal_size(1).value_or(os::TerminalSize{80, 24});
    const monitor::ScreenSize room{.columns = static_cast<size_t>(size.columns),
                                   .rows = static_cast<size_t>(size.rows)};
    if (!os::write_output(drawn(picture(store, state, room)))) {
      break;
    }
    std::array<os::Watch, 2> watches = {os::Watch{.fd = signals.fd()}, os::Watch{.fd = 0}};
    os::wait_for(watches, pause_of(options));
    stopped = heed(signals, screen);
    if (watches[1].is_ready && !press_keys(state)) {
      break;
    }
    if (Clock::now() - looked >= pause_of(options)) {  // repeated keys must not delay polling
      store.poll();
      looked = Clock::now();
    }
  }
  constexpr int kSignals = 128;
  return stopped ? kSignals + *stopped : 0;
}

// Prints pages until the run has ended or stdout is closed. is_over is determined before poll(), so
// that the last page has the last events.
int watch_plain(monitor::EventStore& store,
                const monitor::ScreenState& state,
                const Run& run,
                const WatchOptions& options) {
  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  for (bool is_first = true;; is_first = false) {
    const bool is_over = options.is_once || has_ended(run.directory, store);
    if (store.poll() || is_first) {
      const std::string page =
          plain_text(picture(store, state, {.columns = kPlainColumns, .rows = 0}));
      if (!os::write_output(is_first ? page : "\n" + page)) {
        return 0;
      }
    }
    if (is_over) {
      return 0;
    }
    std::array<os::Watch, 1> watches = {os::Watch{.fd = signals.fd()}};
    os::wait_for(watches, pause_of(options));
    if (const auto signal = signals.find_pending()) {
      constexpr int kSignals = 128;
      return kSignals + *signal;
    }
  }
}

// The full screen needs a terminal on both sides: keys from stdin, pictures to stdout. `lockstep
// watch | tee` and cron jobs get plain pages.
int watch(const WatchOptions& options) {
  const auto sort = monitor::find_sort(options.sort);
  if (!sort) {
    throw Error(ExitCode::Usage, fmt::format("cannot sort by '{}'", options.sort))
        .fact("expected", "rank, step, loss, gpu, cpu, memory or late")
        .hint(fmt::format("--sort {}",
                          find_closest(options.sort,
                                       std::array<std::string, 7>{
                                           "rank", "step", "loss", "gpu", "cpu", "memory", "late"})
                              .value_or("late")));
  }
  constexpr double kMinimum = 0.05;
  constexpr double kMaximum = 3600;
  if (!(options.every >= kMinimum && options.every <= kMaximum)) {
    throw Error(ExitCode::Usage, "--every must be between 0.05 and 3600 seconds")
        .fact("found", fmt::format("{}", options.every), "--every")
        .hint("--every 1");
  }
  const Run run = watched_run(options.run);
  monitor::EventStore store(run.directory);
  const monitor::ScreenState state{.sort = *sort, .filter = options.filter};
  const bool is_dumb = os::find_variable(os::environment(), "TERM").value_or("dumb") == "dumb";
  if (options.is_once || is_dumb || !os::is_terminal(1) || !os::is_terminal(0)) {
    return watch_plain(store, state, run, options);
  }
  store.poll();
  return watch_live(store, state, options);
}

}  // namespace

void add_watch(CLI::App& app, Call& call) {
  auto options = std::make_shared<WatchOptions>();
  CLI::App* command = app.add_subcommand("watch", kDescription);
  command->footer(kFooter);
  command->add_option("RUN", options->run, "Run or job [newest run below ./runs]");
  command->add_flag("--once", options->is_once, "Print the page once and exit");
  command->add_option("--sort", options->sort, "Sort by rank, step, loss, gpu, cpu, memory or late")
      ->type_name("COLUMN")
      ->default_str("rank");
  command->add_option("--filter", options->filter, "Show only rows that contain TEXT")
      ->type_name("TEXT")
      ->default_str("all rows");
  command->add_option("--every", options->every, "Refresh interval, 0.05 to 3600")
      ->type_name("SECONDS")
      ->default_str("1");
  command->callback([options, &call] { call.exit_code = watch(*options); });
}

}  // namespace lockstep::cli
