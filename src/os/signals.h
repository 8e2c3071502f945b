// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>

#include "os/fd.h"

namespace lockstep::os {

// Signals as a readable descriptor.
//
// Blocks the given signals in the calling thread, and in threads that it starts later; they then
// wait here to be read. Made before the first thread, it owns them for the whole process. A signal
// that this process was started to ignore, as nohup does with SIGHUP, stays ignored. Gives the
// former mask back at the end. One thread reads.
class SignalFd {
 public:
  SignalFd(std::initializer_list<int> signals);
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;
  ~SignalFd();

  // The next signal that has come, without waiting.
  std::optional<int> find_pending();

  // Readable while a signal waits.
  int fd() const { return fd_.number(); }

 private:
  sigset_t former_{};
  Fd fd_;
};

// Makes this process deaf to a signal; a program that it starts through os is not.
void ignore_signal(int signal);

// Gives a signal its default effect back, whatever this process was started with.
void restore_signal(int signal);

// "SIGKILL"; "signal 77" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep::os
