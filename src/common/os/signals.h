// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "common/os/fd.h"

namespace lockstep::os {

// Signals as a readable descriptor.
//
// Blocks the given signals in the calling thread and in threads that it starts later, and queues
// them here for reading. Created before the first thread, it owns them for the whole process. A
// signal that was ignored at the start of this process, as SIGHUP under nohup, stays ignored. The
// destructor restores the previous mask. Only one thread may read.
class SignalFd {
 public:
  SignalFd(std::initializer_list<int> signals);
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;
  ~SignalFd();

  // A signal, its sender (0: the kernel, or a process outside this process namespace), and the
  // value that the sender attached, if any.
  struct Arrival {
    int number = 0;
    int sender = 0;
    int word = 0;
  };

  // The next pending signal, without waiting.
  std::optional<int> find_pending();
  std::optional<Arrival> find_arrival();

  // Leaves the signals blocked permanently: a later request to stop is too late.
  void keep_blocked() { is_kept_ = true; }

  // Readable while a signal is pending.
  int fd() const { return fd_.number(); }

 private:
  sigset_t former_{};
  bool is_kept_ = false;
  Fd fd_;
};

// Threads created before a SignalFd, such as those that a BLAS library starts when it is loaded, do
// not block its signals, and the kernel can deliver one to them with its default effect. While this
// object lives, such a thread forwards the signal to the SignalFd. Ignored signals stay ignored.
class OlderThreads {
 public:
  OlderThreads(std::initializer_list<int> signals);
  OlderThreads(const OlderThreads&) = delete;
  OlderThreads& operator=(const OlderThreads&) = delete;
  ~OlderThreads();

 private:
  struct Former {
    int signal;
    struct sigaction action;
  };
  std::vector<Former> former_;
};

// Makes this process ignore a signal; programs that it starts through os do not ignore it.
void ignore_signal(int signal);

// Restores the default effect of a signal, whatever this process inherited.
void restore_signal(int signal);

// "SIGKILL"; "signal 77" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep::os
