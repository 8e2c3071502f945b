// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/error.h"

// What can be said of a gang from where each worker is in its calls; pure.
namespace lockstep::comm {

// What a worker tells the others of itself; see CallView.
struct Seen {
  std::string host;
  uint64_t number = 0;
  std::string call;
  bool in_call = false;
  bool is_end = false;  // the call is the end of the program
  std::string scope;
  std::string detail;
  std::string phase;
  double since = 0;     // seconds since the epoch
  bool failed = false;  // the call or stretch was left by an exception: the worker is ending
  uint64_t beat = 0;    // how often it has told

  bool is_inside() const { return in_call || !scope.empty(); }
  bool operator==(const Seen& other) const = default;
};

// As text for the store, and back; nothing if it is none of ours.
std::string encode(const Seen& seen);
std::optional<Seen> decode(std::string_view text);

// One entry for each rank; nothing: it has told nothing yet.
using GangView = std::vector<std::optional<Seen>>;

struct Mistake {
  std::string sentence;            // "the workers make different calls"
  std::vector<std::string> facts;  // "rank 0: all-reduce of 4 floats (call #7)"
  std::string hint;                // empty: none
};

Error to_error(const Mistake& mistake);

// What one worker does.
struct Doing {
  int rank = 0;
  std::string call;   // what must be the same on all workers
  std::string words;  // how a message puts it
};

// The mistake of workers that make different calls, in the order of ranks; those that make the same
// share a line, in the words of the first.
Mistake different_calls(const std::vector<Doing>& calls);

// What can no longer end well: two workers in different calls of the same number, or one at the end
// of its program while another waits for an exchange with it.
std::optional<Mistake> find_mistake(const GangView& gang);

// Who keeps worker `me`, which is inside a call, waiting: a sentence that names them, where they
// were seen last, and who waits. Nothing if all have come.
std::optional<std::string> find_missing(const GangView& gang, int me, double now);

// The same call on all workers, and none comes out.
std::string describe_hang(const GangView& gang, int me, double now);

}  // namespace lockstep::comm
