// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/coordinator.h"

#include <algorithm>
#include <fmt/format.h>

#include "lockstep/error.h"
#include "training/comm/format_ranks.h"

namespace lockstep::strategy::horovod {
namespace {

double seconds(Coordinator::Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

using Describe = std::function<std::string(const Signature&)>;

// One fact for each value that was found: "ranks 0, 2: [3, 4]".
Response mismatch(const std::map<int, Request>& requests,
                  const char* what,
                  const Describe& describe) {
  std::map<std::string, std::vector<int>> found;
  std::vector<std::string> order;
  for (const auto& [rank, request] : requests) {
    const std::string text = describe(request.tensor);
    if (found[text].empty()) {
      order.push_back(text);
    }
    found[text].push_back(rank);
  }
  Response fault{.kind = Response::Kind::Fault,
                 .code = static_cast<int>(ExitCode::Usage),
                 .sentence = fmt::format("cannot reduce '{}': Mismatched allreduce tensor {}",
                                         requests.begin()->second.tensor.name,
                                         what)};
  for (const std::string& text : order) {
    fault.facts.emplace_back(comm::format_ranks(found[text]), text);
  }
  fault.hint = "use the same model and options on every worker";
  return fault;
}

}  // namespace

std::vector<Response> Coordinator::take(const std::vector<std::vector<Request>>& requests,
                                        Clock::time_point now) {
  std::vector<Response> responses;
  std::vector<std::string> touched;
  bool someone_joined = false;
  for (int rank = 0; rank < workers_; ++rank) {
    for (const Request& request : requests[static_cast<size_t>(rank)]) {
      if (request.kind == Request::Kind::Join) {
        // Of ranks that join in the same round, the highest counts as the last.
        joined_.insert(rank);
        last_joined_ = rank;
        someone_joined = true;
      } else if (request.kind == Request::Kind::Leave) {
        responses.push_back({.kind = Response::Kind::Left, .rank = rank});
      } else {
        Entry& entry = table_[request.tensor.name];
        // A tensor may have waited on its worker before it was requested: the stall began then.
        // Clocks of machines differ, so the request has a duration and not a time.
        const auto announced = now - std::chrono::duration_cast<Clock::duration>(
                                         std::chrono::duration<double>(request.waited));
        entry.since = entry.requests.empty() ? announced : std::min(entry.since, announced);
        entry.requests[rank] = request;
        touched.push_back(request.tensor.name);
        if (on_ready_) {
          on_ready_(request.tensor.name, rank);
        }
      }
    }
  }
  // A rank that has joined counts as ready for everything, so any entry may be complete now.
  if (someone_joined) {
    for (const auto& [name, entry] : table_) {
      touched.push_back(name);
    }
  }
  // All requests are stored before any entry is judged. A name may occur several times in
  // `touched`; it is answered once, because the first answer removes the entry.
  for (const std::string& name : touched) {
    const auto found = table_.find(name);
    if (found != table_.end() && is_complete(found->second)) {
      responses.push_back(judge(found->second));
      table_.erase(found);
    }
  }
  if (static_cast<int>(joined_.size()) == workers_) {
    responses.push_back({.kind = Response::Kind::AllJoined, .rank = last_joined_});
    joined_.clear();
  }
  return responses;
}

bool Coordinator::is_complete(const Entry& entry) const {
  for (int rank = 0; rank < workers_; ++rank) {
    if (!entry.requests.contains(rank) && !joined_.contains(rank)) {
      return false;
    }
  }
  return true;
}

// The wording follows Horovod ("Mismatched allreduce tensor shapes"), so that a search finds it.
Response Coordinator::judge(const Entry& entry) const {
  const Signature& first = entry.requests.begin()->second.tensor;
  const auto differ = [&](auto same) {
    return std::any_of(entry.requests.begin(), entry.requests.end(), [&](const auto& each) {
      return !same(each.second.tensor);
    });
  };
  if (differ([&](const Signature& tensor) { return tensor.type == first.type; })) {
    return mismatch(entry.requests, "types", [](const Signature& tensor) {
      return std::string(toString(tensor.type));
    });
  }
  if (differ([&](const Signature& tensor) { return tensor.shape == first.shape; })) {
    return mismatch(
        entry.requests, "shapes", [](const Signature& tensor) { return shape_text(tensor.shape); });
  }
  if (differ([&](const Signature& tensor) { return tensor.operation == first.operation; })) {
    return mismatch(entry.requests, "operations", [](const Signature& tensor) {
      return to_text(tensor.operation);
    });
  }
  const bool empty = std::all_of(entry.requests.begin(),
                                 entry.requests.end(),
                                 [](const auto& each) { return each.second.empty; });
  return {.kind = Response::Kind::Reduce, .tensor = first, .empty = empty};
}

std::string Coordinator::describe(const Entry& entry, Clock::time_point now) const {
  std::vector<int> ready;
  std::vector<int> missing;
  for (int rank = 0; rank < workers_; ++rank) {
    if (entry.requests.contains(rank)) {
      ready.push_back(rank);
    } else if (!joined_.contains(rank)) {
      missing.push_back(rank);
    }
  }
  return fmt::format("ready on {}; missing on {} for {:.3g} s",
                     comm::format_ranks(ready),
                     comm::format_ranks(missing),
                     seconds(now - entry.since));
}

std::optional<std::string> Coordinator::find_stall(Clock::time_point now) {
  if (stall_warning_ <= 0 || seconds(now - last_report_) < stall_warning_) {
    return std::nullopt;
  }
  std::string report;
  for (const auto& [name, entry] : table_) {
    if (seconds(now - entry.since) >= stall_warning_) {
      report += fmt::format("\n  {}: {}", name, describe(entry, now));
    }
  }
  if (report.empty()) {
    return std::nullopt;
  }
  last_report_ = now;
  return "stalled: some workers wait for tensors that others have not announced" + report;
}

// Called twice per cycle with the same time: Engine::vote() asks whether a negotiation is needed,
// and negotiate() sends the Fault. The second answer is sent: the requests in between may have
// completed the tensor.
std::optional<Response> Coordinator::find_shutdown(Clock::time_point now) const {
  if (stall_shutdown_ <= 0) {
    return std::nullopt;
  }
  Response fault{.kind = Response::Kind::Fault,
                 .code = static_cast<int>(ExitCode::Unavailable),
                 .sentence = fmt::format("exchange of gradients stalled for more than {:.3g} s",
                                         stall_shutdown_),
                 .hint = "check the missing ranks, or set HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0"};
  for (const auto& [name, entry] : table_) {
    if (seconds(now - entry.since) >= stall_shutdown_) {
      fault.facts.emplace_back(name, describe(entry, now));
    }
  }
  return fault.facts.empty() ? std::nullopt : std::optional(fault);
}

}  // namespace lockstep::strategy::horovod
