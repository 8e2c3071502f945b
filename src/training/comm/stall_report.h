// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/error.h"

// Derives stalls and mismatched calls from the positions of all workers. Pure functions.
namespace lockstep::comm {

// The position that a worker publishes; see CallView.
struct Seen {
  std::string host;
  uint64_t number = 0;
  std::string call;
  bool in_call = false;
  bool is_end = false;  // the call is the barrier at the end of the program
  std::string scope;
  std::string detail;
  std::string phase;
  double since = 0;     // seconds since the epoch
  bool failed = false;  // the call or scope ended with an exception: the worker is ending
  uint64_t beat = 0;    // number of publications; grows while the worker is alive

  bool is_inside() const { return in_call || !scope.empty(); }
  bool operator==(const Seen& other) const = default;
};

// Text for the store, and back; nullopt if the text is not in this format. Twelve lines:
//
//   version "1", host, number, call, in_call, is_end, scope, detail, phase, since, failed, beat
//
// Line breaks in texts are replaced by blanks.
std::string encode(const Seen& seen);
std::optional<Seen> decode(std::string_view text);

// Indexed by rank; nullopt: the rank has not published yet.
using WorkerViews = std::vector<std::optional<Seen>>;

struct Mistake {
  std::string sentence;            // "workers made different collective calls"
  std::vector<std::string> facts;  // "rank 0: all-reduce of 4 floats (call #7)"
  std::string hint;                // empty: none
};

Error to_error(const Mistake& mistake);

// The current call of one worker.
struct Doing {
  int rank = 0;
  std::string call;   // must be equal on all workers
  std::string words;  // description for messages
};

// The mistake of workers that make different calls, in the order of ranks. Workers with equal calls
// share a line, with the description of the first.
Mistake different_calls(const std::vector<Doing>& calls);

// Detects states that cannot resolve: two workers in different calls of the same number, or one at
// the end of its program while another waits for it.
std::optional<Mistake> find_mistake(const WorkerViews& views);

// Describes the ranks that keep worker `me` waiting, where they were last seen, and which ranks
// wait. `me` must be inside a call. nullopt if all ranks have arrived.
std::optional<std::string> find_missing(const WorkerViews& views, int me, double now);

// Describes a hang: all workers are in the same call, and none returns.
std::string describe_hang(const WorkerViews& views, int me, double now);

}  // namespace lockstep::comm
