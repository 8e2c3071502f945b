// SPDX-License-Identifier: Apache-2.0
//
// Output takes this path:
//
//   process -- pipe --> read() --> LineSplitter --+--> log in the run directory (both streams)
//                                                 +--> --redirects, --tee, --output-filename
//                                                 +--> sink: console, or Forwarder to the leader
//                                                 +--> MetricFinder
//
// Logs are written first: if the launcher is killed, the log has at least what the console has
// shown. Text of progress bars ('\r') goes to the sink only.
#include "launcher/supervisor/node/worker.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <memory>
#include <system_error>
#include <utility>

#include "common/contract/unprinted_error.h"
#include "common/os/files.h"
#include "common/os/pipe.h"

namespace lockstep::supervisor {
namespace {

// Beyond 64 MiB of pipe buffers per user, the kernel makes new pipes tiny. The workers of a node
// use at most a quarter of that, unless the default size of the kernel needs more.
constexpr int kMaxPipeBytes = 1 << 20;
constexpr int kUsualPipeBytes = 1 << 16;
constexpr int kAllPipesBytes = 16 << 20;
// The maximum per read(). A worker that floods its pipe gets one chunk per turn, like all others.
constexpr size_t kChunkBytes = size_t{1} << 18;

int pipe_bytes(int workers) {
  return std::clamp(kAllPipesBytes / (2 * std::max(workers, 1)), kUsualPipeBytes, kMaxPipeBytes);
}

}  // namespace

Worker::Worker(contract::WorkerSpec spec,
               LogFiles files,
               std::function<void(const std::string&)> report_unwritten)
    : spec_(std::move(spec)),
      files_(std::move(files)),
      report_unwritten_(std::move(report_unwritten)) {
  for (size_t i = 0; i < channels_.size(); ++i) {
    Channel& channel = channels_.at(i);
    os::Pipe pipe = os::make_pipe();
    if (pipe_bytes(spec_.local_world_size) > kUsualPipeBytes) {
      os::enlarge_pipe(pipe.out.number(), pipe_bytes(spec_.local_world_size));
    }
    os::set_nonblocking(pipe.out.number());
    channel.outer = std::move(pipe.out);
    channel.inner = std::move(pipe.in);
    channel.is_shown = files_.streams.at(i).is_shown;
  }
}

// A run directory can be used again, and logs are opened for appending. `begin` keeps the failure
// report from quoting the output of an earlier run.
void Worker::open_logs() {
  log_ = open_log(files_.log);
  for (size_t i = 0; i < channels_.size(); ++i) {
    const LogFiles::OfStream& further = files_.streams.at(i);
    for (const auto& path : {further.torchrun, further.horovod}) {
      if (!path.empty()) {
        channels_.at(i).further.push_back(open_log(path));
      }
    }
  }
}

Worker::Log Worker::open_log(const std::filesystem::path& path) {
  if (path.empty()) {
    return {};
  }
  os::make_directories(path.parent_path());
  os::Fd file = os::open_for_append(path);
  std::error_code unknown;
  const uintmax_t size = std::filesystem::file_size(path, unknown);
  return {.path = path, .file = std::move(file), .begin = unknown ? 0 : static_cast<int64_t>(size)};
}

void Worker::listen(MetricFinder finder, std::function<void(std::string)> take) {
  metrics_.emplace(std::move(finder));
  take_metrics_ = std::move(take);
}

void Worker::close_inner_ends() {
  for (Channel& channel : channels_) {
    channel.inner.close();
  }
}

void Worker::adopt(os::Child process) {
  process_.emplace(std::move(process));
}

// The group includes the background processes of the worker. SIGKILL is the strongest signal: a
// SIGTERM after it does not change what ended the process.
void Worker::send(int signal) {
  if (is_running()) {
    process_->signal_group(signal);
    sent_ = sent_ == SIGKILL ? SIGKILL : signal;
  }
}

// A partial write leaves a broken line at the end of the file. The gap text begins with '\n' for
// that reason, and is tried before the next lines until it succeeds.
void Worker::append(Log& log, std::string_view lines) const {
  constexpr std::string_view kGap =
      "\n[lockstep: lines are missing here, they could not be written]\n";
  if (!log.file.is_open()) {
    return;
  }
  const int file = log.file.number();
  if ((!log.has_gap || os::write_all(file, kGap)) && os::write_all(file, lines)) {
    log.has_gap = false;
    log.is_line_open = !lines.ends_with('\n');
    return;
  }
  log.has_gap = true;
  report_unwritten_(fmt::format(
      "cannot write {}: {}", log.path.string(), std::generic_category().message(errno)));
}

void Worker::take(Stream stream, std::string_view lines, LineSink& sink) {
  if (lines.empty()) {
    return;
  }
  append(log_, lines);
  for (Log& log : channel(stream).further) {
    append(log, lines);
  }
  if (channel(stream).is_shown) {
    sink.take_lines(spec_.rank, stream, lines);
  }
  if (metrics_) {
    if (std::string found = metrics_->find(lines); !found.empty()) {
      take_metrics_(std::move(found));
    }
  }
}

// The buffer is not a member, which would cost 256 KiB per stream of every worker.
// make_unique_for_overwrite does not clear it.
bool Worker::read(Stream stream, LineSink& sink) {
  Channel& from = channel(stream);
  const auto buffer = std::make_unique_for_overwrite<std::array<char, kChunkBytes>>();
  size_t count = 0;
  const os::ReadResult result = os::read_some(from.outer.number(), *buffer, count);
  bytes_read_ += static_cast<int64_t>(count);
  const LineSplitter::Output output = from.splitter.feed({buffer->data(), count});
  for (const std::string_view lines : output.lines) {
    take(stream, lines, sink);
  }
  if (output.status && from.is_shown) {
    sink.take_status(spec_.rank, *output.status);
  }
  if (result == os::ReadResult::End) {
    take(stream, from.splitter.finish(), sink);
    from.outer.close();
  }
  return result != os::ReadResult::Nothing;
}

void Worker::finish_streams(LineSink& sink) {
  for (const Stream stream : {Stream::Out, Stream::Err}) {
    Channel& from = channel(stream);
    // The limit on turns ends the loop if another process keeps writing to the pipe.
    for (int turns = 0; from.outer.is_open() && turns < 2 * kMaxPipeBytes / kUsualPipeBytes;
         ++turns) {
      if (!read(stream, sink)) {
        break;
      }
    }
    take(stream, from.splitter.finish(), sink);
    from.outer.close();
  }
  log_unprinted_error();
}

void Worker::log_unprinted_error() {
  if (const auto error = contract::find_unprinted_error(spec_.error_file)) {
    const std::string lines = fmt::format("\nlockstep: error: {}\n", *error);
    const auto add = [&](Log& log) {
      append(log, lines.substr(log.is_line_open ? 0 : 1));
    };
    add(log_);
    std::for_each(channel(Stream::Err).further.begin(), channel(Stream::Err).further.end(), add);
  }
}

// Unlike send(), also for a worker that the fork server has not handed over yet: Slurm has
// signalled it as well.
void Worker::note_sent(int signal) {
  sent_ = sent_ == SIGKILL ? SIGKILL : signal;
}

void Worker::pass(int signal) const {
  if (is_running()) {
    process_->signal_group(signal);
  }
}

// process_ is kept after the exit, because the failure report shows its number.
std::optional<os::ExitStatus> Worker::find_new_exit() {
  if (!is_running()) {
    return std::nullopt;
  }
  const auto status = process_->find_exit();
  has_ended_ = status.has_value();
  return status;
}

bool Worker::has_open_streams() const {
  return std::any_of(channels_.begin(), channels_.end(), [](const Channel& channel) {
    return channel.outer.is_open();
  });
}

}  // namespace lockstep::supervisor
