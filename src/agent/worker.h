// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/line_sink.h"
#include "agent/line_splitter.h"
#include "agent/log_files.h"
#include "agent/metric_finder.h"
#include "contract/worker_env.h"
#include "os/fd.h"
#include "os/process.h"

namespace lockstep::agent {

// One worker of this node: its process, what it says, and its logs.
class Worker {
 public:
  // Makes the pipes; the process comes later. `tell_unwritten` is told which log cannot be written,
  // and why, whenever that happens; once there is room again, the log goes on and says so.
  Worker(contract::WorkerPlace place,
         LogFiles files,
         std::function<void(const std::string&)> tell_unwritten);

  // Opens the logs, with the directories that they need, before the first read(). Apart from the
  // rest, because a shared file system takes its time, and the process need not wait for it. Throws
  // an Error when a log cannot be opened.
  void open_logs();

  // From now on what the finder finds in its lines goes to `take`.
  void listen(MetricFinder finder, std::function<void(std::string)> take);

  // The ends that the process gets as its stdout and stderr, until close_inner_ends().
  int stdout_fd() const { return channels_[0].inner.number(); }
  int stderr_fd() const { return channels_[1].inner.number(); }
  void close_inner_ends();

  // The process runs.
  void adopt(os::Child process);

  // Sends to the worker's process group and remembers it.
  void send(int signal);

  // Somebody else has sent it.
  void note_sent(int signal);

  // Passes a signal on that stops nobody by our will.
  void pass(int signal) const;

  // Reads what a stream holds, once; lines go to the logs and, where the user wants to see this
  // stream, to the sink. False when nothing came.
  bool read(Stream stream, LineSink& sink);

  // Reads what the streams still hold, takes a last line without '\n', and forgets the streams.
  void finish_streams(LineSink& sink);

  // How the process ended, told once, when it has just been noticed.
  std::optional<os::ExitStatus> find_new_exit();

  const contract::WorkerPlace& place() const { return place_; }
  bool has_process() const { return process_.has_value(); }
  bool is_running() const { return process_.has_value() && !has_ended_; }
  int pid() const { return process_ ? process_->pid() : 0; }
  int process_fd() const { return process_ ? process_->fd() : -1; }
  int sent() const { return sent_; }

  // -1 when the stream has ended.
  int stream_fd(Stream stream) const { return channel(stream).outer.number(); }
  bool has_open_streams() const;

  // All that came so far, on both streams.
  int64_t bytes_said() const { return bytes_said_; }

  // Where read_last_lines finds what it said, and from which byte on.
  const std::filesystem::path& log() const { return log_.path; }
  int64_t log_begin() const { return log_.begin; }

 private:
  struct Log {
    std::filesystem::path path;
    os::Fd file;
    int64_t begin = 0;     // what was there before, in bytes
    bool has_gap = false;  // at its end
  };
  struct Channel {
    os::Fd outer;  // ours
    os::Fd inner;  // the process's
    LineSplitter splitter;
    std::vector<Log> further;  // torchrun's and horovodrun's files
    bool is_shown = true;
  };

  static Log open_log(const std::filesystem::path& path);
  const Channel& channel(Stream stream) const { return channels_[stream == Stream::Out ? 0 : 1]; }
  Channel& channel(Stream stream) { return channels_[stream == Stream::Out ? 0 : 1]; }
  void append(Log& log, std::string_view lines) const;
  void take(Stream stream, std::string_view lines, LineSink& sink);

  contract::WorkerPlace place_;
  LogFiles files_;
  std::function<void(const std::string&)> tell_unwritten_;
  Log log_;
  std::array<Channel, 2> channels_;
  std::optional<MetricFinder> metrics_;
  std::function<void(std::string)> take_metrics_;
  std::optional<os::Child> process_;
  bool has_ended_ = false;
  int sent_ = 0;
  int64_t bytes_said_ = 0;
};

}  // namespace lockstep::agent
