// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "common/os/pipe.h"
#include "common/os/signals.h"

namespace lockstep::train {

// Handles SIGTERM and SIGINT in a worker. During training (while a Patience exists) a signal is
// only recorded, and all workers stop after the same step. At any other time, such as joining the
// process group, reading data or waiting after an error, a signal ends the process immediately, as
// it does by default.
//
// The signals are blocked in all threads and read from a signalfd by a thread, so that no code runs
// in a signal handler. Create the object before the first thread: threads inherit the signal mask.
// find_signal() is thread-safe.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The last recorded signal, if there is one.
  std::optional<int> find_signal() const;

  // While at least one exists, signals are recorded instead of ending the process.
  class Patience {
   public:
    explicit Patience(StopRequest* request);
    ~Patience();
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;

   private:
    StopRequest* request_;
  };

 private:
  void watch();

  os::SignalFd signals_;
  os::OlderThreads older_threads_;
  os::Pipe end_;                   // closed to end the thread
  std::atomic<int> patience_ = 0;  // number of Patience objects; one per replica
  std::atomic<int> signal_ = 0;
  std::jthread thread_;
};

}  // namespace lockstep::train
