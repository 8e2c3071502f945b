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

#include "common/contract/worker_env.h"
#include "common/os/fd.h"
#include "common/os/process.h"
#include "launcher/supervisor/console/line_sink.h"
#include "launcher/supervisor/console/line_splitter.h"
#include "launcher/supervisor/console/metric_finder.h"
#include "launcher/supervisor/node/log_files.h"

namespace lockstep::supervisor {

// One worker of this node: its process, its output and its log files. Not thread-safe.
class Worker {
 public:
  // Creates the pipes; adopt() adds the process. `report_unwritten` is called with an error message
  // whenever a log cannot be written. When there is space again, the log continues after a line
  // that marks the gap.
  Worker(contract::WorkerSpec spec,
         LogFiles files,
         std::function<void(const std::string&)> report_unwritten);

  // Creates the directories and opens the logs. Must be called before the first read(). Separate
  // from the constructor, so that the process does not wait for a slow file system. Throws an Error
  // if a log cannot be opened.
  void open_logs();

  // Passes the metrics that the finder finds in the output to `take`.
  void listen(MetricFinder finder, std::function<void(std::string)> take);

  // The descriptors for stdout and stderr of the process. Valid until close_inner_ends().
  int stdout_fd() const { return channels_[0].inner.number(); }
  int stderr_fd() const { return channels_[1].inner.number(); }
  void close_inner_ends();

  // Takes over the running process.
  void adopt(os::Child process);

  // Sends a signal to the process group of the worker and remembers it for sent().
  void send(int signal);

  // Slurm has sent the signal directly; remembers it for sent().
  void note_sent(int signal);

  // Forwards a signal that is not meant to stop the worker; not remembered.
  void pass(int signal) const;

  // Reads a stream once. Lines go to the logs and, if the stream is shown, to the sink. False if
  // nothing was available.
  bool read(Stream stream, LineSink& sink);

  // Reads the rest of both streams, including a last line without '\n', and closes them. Adds an
  // error that the worker did not print to the logs: the console shows the failure report instead.
  void finish_streams(LineSink& sink);

  // The exit status of the process, returned once, when the exit is noticed.
  std::optional<os::ExitStatus> find_new_exit();

  const contract::WorkerSpec& spec() const { return spec_; }
  bool has_process() const { return process_.has_value(); }
  bool is_running() const { return process_.has_value() && !has_ended_; }
  int pid() const { return process_ ? process_->pid() : 0; }
  int process_fd() const { return process_ ? process_->fd() : -1; }
  int sent() const { return sent_; }

  // -1 if the stream has ended.
  int stream_fd(Stream stream) const { return channel(stream).outer.number(); }
  bool has_open_streams() const;

  // Bytes received so far on both streams.
  int64_t bytes_read() const { return bytes_read_; }

  // The log and the byte at which the output of this worker starts, for read_last_lines().
  const std::filesystem::path& log() const { return log_.path; }
  int64_t log_begin() const { return log_.begin; }

 private:
  struct Log {
    std::filesystem::path path;
    os::Fd file;
    int64_t begin = 0;          // size of the file when it was opened
    bool has_gap = false;       // lines are missing at the end
    bool is_line_open = false;  // the last line has no '\n' yet
  };
  struct Channel {
    os::Fd outer;  // read end, of the agent
    os::Fd inner;  // write end, of the process
    LineSplitter splitter;
    std::vector<Log> further;  // files of torchrun and horovodrun options
    bool is_shown = true;
  };

  static Log open_log(const std::filesystem::path& path);
  const Channel& channel(Stream stream) const { return channels_[stream == Stream::Out ? 0 : 1]; }
  Channel& channel(Stream stream) { return channels_[stream == Stream::Out ? 0 : 1]; }
  void append(Log& log, std::string_view lines) const;
  void log_unprinted_error();
  void take(Stream stream, std::string_view lines, LineSink& sink);

  contract::WorkerSpec spec_;
  LogFiles files_;
  std::function<void(const std::string&)> report_unwritten_;
  Log log_;
  std::array<Channel, 2> channels_;
  std::optional<MetricFinder> metrics_;
  std::function<void(std::string)> take_metrics_;
  std::optional<os::Child> process_;
  bool has_ended_ = false;
  int sent_ = 0;
  int64_t bytes_read_ = 0;
};

}  // namespace lockstep::supervisor
