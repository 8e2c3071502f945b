// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/runs/export_tensorboard.h"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/text.h"
#include "common/contract/run_state.h"
#include "common/os/pipe.h"
#include "common/os/signals.h"
#include "common/os/standard_streams.h"
#include "launcher/cli/runs/watched_run.h"
#include "launcher/monitor/event_store.h"
#include "launcher/monitor/export.h"
#include "launcher/monitor/tensorboard.h"
#include "launcher/monitor/tensorboard_messages.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// Every value is written when it arrives. The store only has to keep steps: they give the step at
// which a node was sampled. points_of_many is 0, which Series raises to its minimum: series of
// ranks and nodes keep a few points and pass their values on through take_news().
monitor::StoreLimits limits_for(const TensorboardOptions& options) {
  constexpr size_t kPoints = size_t{1} << 16;
  return {.points = kPoints, .points_of_many = 0, .keeps_news = [&options](std::string_view name) {
            return options.series.empty() ? !name.starts_with("rank/")
                                          : monitor::is_chosen(name, options.series);
          }};
}

// Writes one run to one directory.
class Exporter {
 public:
  Exporter(Run run, const TensorboardOptions& options)
      : run_(std::move(run)),
        directory_(options.directory.empty() ? run_.directory.tensorboard()
                                             : fs::path(options.directory)),
        options_(options),
        store_(run_.directory, limits_for(options)) {}

  void write_once() {
    store_.poll();
    if (!options_.series.empty()) {
      monitor::choose_series(store_, options_.series);  // throws for an unknown series
    }
    write_news();
    finish();
  }

  // Writes new values until the run has ended or a signal arrives.
  void follow(os::SignalFd& signals) {
    constexpr std::chrono::milliseconds kPause(500);
    bool is_stopped = false;
    for (;;) {
      const bool is_over = is_stopped || is_run_over();  // before poll(): no last event is lost
      store_.poll();
      write_news();
      if (is_over) {
        break;
      }
      std::array<os::Watch, 1> watches = {os::Watch{.fd = signals.fd()}};
      os::wait_for(watches, kPause);
      is_stopped = signals.find_pending().has_value();
    }
    finish();
  }

  const fs::path& directory() const { return directory_; }

 private:
  // With --wait, the directory can contain the state of an earlier run that has ended; the expected
  // run has a different start time.
  bool is_run_over() const {
    if (options_.is_waiting && run_.state) {
      const auto state = contract::find_state(run_.directory);
      if (state && state->started == run_.state->started) {
        return false;
      }
    }
    return has_ended(run_.directory, store_);
  }

  // Does not create the run directory: that is up to the launcher.
  // The earlier files are removed only after the first values of this one are written, so that a
  // TensorBoard that reads the directory never finds it empty.
  void write_news() {
    std::error_code ignored;
    if (!file_ && !fs::exists(run_.directory.root(), ignored)) {
      return;
    }
    if (!file_) {
      file_.emplace(directory_, wall_time());
    }
    file_->add(store_.take_news());
    file_->remove_earlier();
  }

  void finish() {
    if (file_) {
      file_->finish();
    }
  }

  Run run_;
  fs::path directory_;
  const TensorboardOptions& options_;
  monitor::EventStore store_;
  std::optional<monitor::TensorboardFile> file_;
};

}  // namespace

int export_tensorboard(const TensorboardOptions& options) {
  if (!monitor::has_tensorboard()) {
    throw Error(ExitCode::Unavailable, "cannot write TensorBoard files: built without protobuf")
        .fact("missing", "protoc and libprotobuf-lite, when lockstep was built")
        .hint(
            "install libprotobuf-dev and protobuf-compiler and rebuild; --format csv works without "
            "them");
  }
  Exporter exporter(
      options.is_waiting ? coming_run(options.run, fs::current_path()) : watched_run(options.run),
      options);
  std::optional<os::SignalFd> signals;
  if (options.is_following) {
    signals.emplace(std::initializer_list<int>{SIGINT, SIGTERM, SIGHUP});
  }
  fmt::print("tensorboard: --logdir {}\n", quote_for_shell(exporter.directory().string()));
  os::finish_output();
  if (signals) {
    exporter.follow(*signals);
  } else {
    exporter.write_once();
  }
  return 0;
}

}  // namespace lockstep::cli
