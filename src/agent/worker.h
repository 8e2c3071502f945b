// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/display.h"
#include "agent/line_splitter.h"
#include "contract/worker_env.h"
#include "os/fd.h"
#include "os/pipe.h"
#include "os/process.h"

namespace lockstep::agent {

// One worker of this node: its process, what it says, and its log.
class Worker {
 public:
  // Makes the pipes and opens the log; the process comes later.
  Worker(contract::WorkerPlace place, const std::filesystem::path& log);

  // The ends that the process gets as its stdout and stderr, until close_inner_ends().
  int stdout_fd() const { return streams_[0].inner.number(); }
  int stderr_fd() const { return streams_[1].inner.number(); }
  void close_inner_ends();

  // The process runs.
  void adopt(os::Child process);

  // Sends to the worker's process group and remembers it.
  void send(int signal);

  // Reads what stream 0 (stdout) or 1 (stderr) holds; lines go to the log, and with `prefix` to the
  // display.
  void read(size_t stream, std::string_view prefix, Display& display);

  // Takes a last line without '\n', and forgets the streams.
  void finish_streams(std::string_view prefix, Display& display);

  // How the process ended, told once, when it has just been noticed.
  std::optional<os::ExitStatus> find_new_exit();

  const contract::WorkerPlace& place() const { return place_; }
  bool has_process() const { return process_.has_value(); }
  bool is_running() const { return process_.has_value() && !has_ended_; }
  int pid() const { return process_ ? process_->pid() : 0; }
  int process_fd() const { return process_ ? process_->fd() : -1; }
  int stream_fd(size_t stream) const { return streams_.at(stream).outer.number(); }
  int sent() const { return sent_; }

 private:
  struct Stream {
    os::Fd outer;  // ours
    os::Fd inner;  // the process's
    LineSplitter splitter;
  };
  void keep(std::string_view lines);

  contract::WorkerPlace place_;
  std::filesystem::path log_path_;
  os::Fd log_;
  std::array<Stream, 2> streams_;
  std::optional<os::Child> process_;
  bool has_ended_ = false;
  int sent_ = 0;
};

}  // namespace lockstep::agent
