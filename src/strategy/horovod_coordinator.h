// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "strategy/horovod_message.h"

namespace lockstep::strategy::horovod {

// Rank 0's table of who has announced what, and its judgement on it. Pure: told the time, it does
// no communication. One thread.
class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;
  // Called as soon as a tensor is first heard of on a rank.
  using Listener = std::function<void(const std::string& name, int rank)>;

  Coordinator(int workers, double stall_warning, double stall_shutdown)
      : workers_(workers), stall_warning_(stall_warning), stall_shutdown_(stall_shutdown) {}

  void on_ready(Listener listener) { on_ready_ = std::move(listener); }

  // Takes in what each rank has sent, in the order of ranks; returns what all must now do.
  std::vector<Response> take(const std::vector<std::vector<Request>>& requests,
                             Clock::time_point now);

  // A report of the tensors that some workers wait for too long, one line each; nothing if there
  // are none or if the last report is not old enough.
  std::optional<std::string> find_stall(Clock::time_point now);

  // The Fault that ends a stall that has lasted longer than allowed.
  std::optional<Response> find_shutdown(Clock::time_point now) const;

 private:
  struct Entry {
    std::map<int, Request> requests;  // by rank
    Clock::time_point since;
  };

  bool is_complete(const Entry& entry) const;
  Response judge(const Entry& entry) const;
  // "ready on ranks 0, 2; missing on rank 1 for 60 s"
  std::string describe(const Entry& entry, Clock::time_point now) const;

  int workers_;
  double stall_warning_;
  double stall_shutdown_;
  Listener on_ready_;
  std::map<std::string, Entry> table_;
  std::set<int> joined_;
  int last_joined_ = 0;
  Clock::time_point last_report_;
};

}  // namespace lockstep::strategy::horovod
