// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/process.h"

namespace lockstep::supervisor {

// NVIDIA's Multi-Process Service (MPS) for the workers of one node: kernels of several processes
// run on a GPU at the same time instead of taking turns.
//
// The constructor uses a daemon of the system if one answers; otherwise it starts a private one, in
// a directory that only this user can read. The daemon is a child of this process and is killed
// with it. Not thread-safe.
class MpsDaemon {
 public:
  // `environment` is that of the workers. Blocks for at most 10 s. Throws an Error (69) if the
  // program is not installed or the daemon does not start.
  explicit MpsDaemon(const os::Environment& environment);
  MpsDaemon(const MpsDaemon&) = delete;
  MpsDaemon& operator=(const MpsDaemon&) = delete;
  // Kills the daemon without a grace period, unless stop() was called.
  ~MpsDaemon();

  // The variables by which CUDA finds the daemon.
  const os::Environment& variables() const { return variables_; }

  // The pipe directory of a daemon that was running before; absent if this object started its own.
  const std::optional<std::filesystem::path>& found() const { return found_; }

  // The process of the daemon, if this object started it.
  std::optional<int> pid() const;

  // Stops the daemon that this object started. Blocks for a few seconds at most. The workers must
  // have ended: the daemon waits for them.
  void stop();

 private:
  void start();
  bool answers(const os::Environment& environment) const;
  [[noreturn]] void refuse_start(const std::string& reason);

  std::filesystem::path program_;
  os::Environment own_environment_;  // of the daemon and of the commands to it
  os::Environment variables_;
  std::optional<std::filesystem::path> found_;
  std::unique_ptr<os::TemporaryDirectory> directory_;
  std::optional<os::Child> process_;
};

}  // namespace lockstep::supervisor
