// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "training/strategy/horovod/message.h"

namespace lockstep::strategy::horovod {

// Rank 0's table of announced tensors. Decides when a tensor is ready on all workers and whether
// their announcements match. Pure: gets the time as an argument and does no communication. Not
// thread-safe.
//
// An entry of the table collects the requests for one name, by rank. It is complete when every rank
// has either requested it or joined. A complete entry is answered with Reduce, or with Fault if
// type, shape or operation differ, and removed.
//
// Responses are in the order of this round's requests: rank by rank, and for each rank in its order
// of announcement. The order as such is arbitrary; it matters only that rank 0 alone decides it and
// that all workers execute the responses in this order.
class Coordinator {
 public:
  using Clock = std::chrono::steady_clock;
  // Called for each request: `rank` has announced the tensor.
  using Listener = std::function<void(const std::string& name, int rank)>;

  Coordinator(int workers, double stall_warning, double stall_shutdown)
      : workers_(workers), stall_warning_(stall_warning), stall_shutdown_(stall_shutdown) {}

  void on_ready(Listener listener) { on_ready_ = std::move(listener); }

  // Processes the requests of all ranks, indexed by rank. Returns the responses for all workers.
  std::vector<Response> take(const std::vector<std::vector<Request>>& requests,
                             Clock::time_point now);

  // Reports tensors that some workers have waited for too long, one line each. nullopt if there are
  // none or if the last report is too recent.
  std::optional<std::string> find_stall(Clock::time_point now);

  // The Fault that ends a stall longer than the limit.
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
