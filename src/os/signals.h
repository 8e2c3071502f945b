// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

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

  // A signal, who sent it (0: the kernel, or nobody of this process namespace), and the number that
  // a sender may have put with it.
  struct Arrival {
    int number = 0;
    int sender = 0;
    int word = 0;
  };

  // The next signal that has come, without waiting.
  std::optional<int> find_pending();
  std::optional<Arrival> find_arrival();

  // Leaves the signals blocked for good: whoever asks this process to stop now comes too late.
  void keep_blocked() { is_kept_ = true; }

  // Readable while a signal waits.
  int fd() const { return fd_.number(); }

 private:
  sigset_t former_{};
  bool is_kept_ = false;
  Fd fd_;
};

// Threads that were there before a SignalFd, such as those that a BLAS starts when it is loaded, do
// not block its signals, and the kernel may give one to them, with its default effect. While one of
// these lives, such a thread hands it on to the SignalFd. A signal that is ignored stays so.
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

// Makes this process deaf to a signal; a program that it starts through os is not.
void ignore_signal(int signal);

// Gives a signal its default effect back, whatever this process was started with.
void restore_signal(int signal);

// "SIGKILL"; "signal 77" for one without a name.
std::string signal_name(int signal);

}  // namespace lockstep::os
