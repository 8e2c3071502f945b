// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "os/pipe.h"
#include "os/signals.h"

namespace lockstep::train {

// What SIGTERM and SIGINT mean to a worker. In training they are remembered, and the gang ends at a
// step; at any other time (joining the gang, reading data, waiting after an error) they end the
// process at once, as they would without us.
//
// Made before the first thread. Any thread may ask.
class StopRequest {
 public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  // The signal that asked this process to end, if one has come while it was remembered.
  std::optional<int> find_signal() const;

  // While one lives, signals are remembered.
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
  std::atomic<int> patience_ = 0;  // how many live; replicas of one process have one each
  std::atomic<int> signal_ = 0;
  std::jthread thread_;
};

}  // namespace lockstep::train
