// SPDX-License-Identifier: Apache-2.0
#include "training/comm/stall_report.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>

#include "common/base/text.h"
#include "training/comm/format_ranks.h"

namespace lockstep::comm {
namespace {

constexpr size_t kMaxNamed = 4;

// The texts are constants or names of tensors. A line break in a name would break the format.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string format_wait(double seconds) {
  return seconds < 60 ? fmt::format("{:.0f} s", std::max(0.0, seconds)) : format_duration(seconds);
}

// "all-reduce of 4 floats #7 (fc1.weight)"; inside a scope, the name of the scope comes first.
std::string describe_call(const Seen& seen) {
  std::string text = seen.scope;
  if (seen.in_call) {
    const std::string call =
        seen.is_end ? seen.call : fmt::format("{} #{}", seen.call, seen.number);
    text = text.empty() ? call : fmt::format("{}, {}", text, call);
  } else if (seen.number > 0) {
    text += fmt::format(" after call #{}", seen.number);
  }
  return seen.detail.empty() ? text : fmt::format("{} ({})", text, seen.detail);
}

std::string describe_last(const Seen& seen, double now) {
  const std::string wait = format_wait(now - seen.since);
  if (seen.is_inside()) {
    return fmt::format("in {} for {}", describe_call(seen), wait);
  }
  const std::string what =
      seen.phase.empty() ? "computing" : fmt::format("busy with {}", seen.phase);
  return seen.number == 0
             ? fmt::format("{} for {}, before its first call", what, wait)
             : fmt::format("{} for {}, after {} #{}", what, wait, seen.call, seen.number);
}

// Whether `other` keeps `mine` waiting. Calls have equal numbers on all workers. Scopes have no
// number; a scope belongs after the last call before it.
bool is_missing(const Seen& mine, const Seen& other) {
  if (mine.in_call) {
    return other.number < mine.number;
  }
  if (other.number != mine.number) {
    return other.number < mine.number || (other.in_call && other.scope.empty());
  }
  return !other.is_inside();
}

std::string list_calls(const std::vector<int>& ranks, const std::string& words) {
  return fmt::format("{}: {}", format_ranks(ranks), words);
}

// Calls are numbered on every worker. Workers that are in a call with the same number must be in
// the same call; only the newest number is compared, because others may have moved on since.
std::optional<Mistake> find_different_calls(const WorkerViews& views) {
  uint64_t number = 0;
  for (const auto& seen : views) {
    if (seen && seen->in_call) {
      number = std::max(number, seen->number);
    }
  }
  std::vector<Doing> calls;
  for (size_t rank = 0; rank < views.size(); ++rank) {
    const auto& seen = views[rank];
    if (seen && seen->in_call && seen->number == number) {
      calls.push_back({static_cast<int>(rank), seen->call, describe_call(*seen)});
    }
  }
  const bool differ = std::any_of(calls.begin(), calls.end(), [&](const Doing& each) {
    return each.call != calls.front().call;
  });
  return differ ? std::optional(different_calls(calls)) : std::nullopt;
}

// Some workers have reached the end of the program while others wait in a scope that needs all.
std::optional<Mistake> ended_early(const WorkerViews& views) {
  std::vector<int> ended;
  std::vector<int> waiting;
  uint64_t number = 0;
  for (size_t rank = 0; rank < views.size(); ++rank) {
    if (views[rank] && views[rank]->is_end) {
      ended.push_back(static_cast<int>(rank));
      number = views[rank]->number;
    }
  }
  for (size_t rank = 0; rank < views.size() && !ended.empty(); ++rank) {
    const auto& seen = views[rank];
    if (!seen || seen->is_end) {
      continue;
    }
    // The end barrier has number `number`, so a worker that waits in a scope has completed one call
    // less. A published position may be a second old and show a call that has ended since; such
    // workers are ignored.
    if (seen->in_call ? seen->number == number
                      : !seen->scope.empty() && seen->number + 1 == number) {
      waiting.push_back(static_cast<int>(rank));
    }
  }
  if (waiting.empty()) {
    return std::nullopt;
  }
  return Mistake{
      .sentence = fmt::format("{} finished before the others", format_ranks(ended)),
      .facts = {list_calls(ended, describe_call(*views[static_cast<size_t>(ended.front())])),
                list_calls(waiting, describe_call(*views[static_cast<size_t>(waiting.front())]))},
      .hint =
          "give all workers the same number of batches, or set StrategyOptions::uneven and call "
          "Strategy::join() on a worker without batches"};
}

}  // namespace

// What a worker publishes in the store: twelve lines, the first of which is the version. Every line
// is present even if it is empty; on_one_line() removes line breaks from texts.
//
//   0 version   1 host     2 number of the call   3 call      4 in_call   5 is_end
//   6 scope     7 detail   8 phase                9 since     10 failed   11 beat
std::string encode(const Seen& seen) {
  return fmt::format("1\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{:.3f}\n{}\n{}",
                     on_one_line(seen.host),
                     seen.number,
                     on_one_line(seen.call),
                     seen.in_call ? 1 : 0,
                     seen.is_end ? 1 : 0,
                     on_one_line(seen.scope),
                     on_one_line(seen.detail),
                     on_one_line(seen.phase),
                     seen.since,
                     seen.failed ? 1 : 0,
                     seen.beat);
}

std::optional<Seen> decode(std::string_view text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 12 || lines[0] != "1") {
    return std::nullopt;
  }
  const auto number = find_integer(lines[2]);
  Seen seen{.host = lines[1],
            .number = number ? static_cast<uint64_t>(*number) : 0,
            .call = lines[3],
            .in_call = lines[4] == "1",
            .is_end = lines[5] == "1",
            .scope = lines[6],
            .detail = lines[7],
            .phase = lines[8],
            .since = 0,
            .failed = lines[10] == "1",
            .beat = static_cast<uint64_t>(find_integer(lines[11]).value_or(0))};
  const char* end = lines[9].data() + lines[9].size();
  if (!number || std::from_chars(lines[9].data(), end, seen.since).ptr != end) {
    return std::nullopt;
  }
  return seen;
}

Mistake different_calls(const std::vector<Doing>& calls) {
  struct Group {
    const Doing* first;
    std::vector<int> ranks;
  };
  std::vector<Group> groups;
  for (const Doing& each : calls) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& other) {
      return other.first->call == each.call;
    });
    if (group == groups.end()) {
      group = groups.insert(groups.end(), {&each, {}});
    }
    group->ranks.push_back(each.rank);
  }
  Mistake mistake{.sentence = "workers made different collective calls",
                  .facts = {},
                  .hint =
                      "make the same calls on every worker; if a worker has fewer batches, use "
                      "StrategyOptions::uneven and Strategy::join()"};
  mistake.facts.reserve(groups.size());
  for (const Group& group : groups) {
    mistake.facts.push_back(list_calls(group.ranks, group.first->words));
  }
  return mistake;
}

Error to_error(const Mistake& mistake) {
  Error error(ExitCode::Usage, mistake.sentence);
  for (const std::string& fact : mistake.facts) {
    const size_t colon = fact.find(": ");
    error.fact(fact.substr(0, colon), fact.substr(colon + 2));
  }
  if (!mistake.hint.empty()) {
    error.hint(mistake.hint);
  }
  return error;
}

std::optional<Mistake> find_mistake(const WorkerViews& views) {
  if (auto mistake = ended_early(views)) {
    return mistake;
  }
  return find_different_calls(views);
}

std::optional<std::string> find_missing(const WorkerViews& views, int me, double now) {
  const Seen& mine = *views[static_cast<size_t>(me)];
  std::vector<int> missing;
  std::vector<int> waiting;
  for (size_t rank = 0; rank < views.size(); ++rank) {
    const auto& seen = views[rank];
    if (static_cast<int>(rank) != me && (!seen || is_missing(mine, *seen))) {
      missing.push_back(static_cast<int>(rank));
    } else if (seen->is_inside()) {
      waiting.push_back(static_cast<int>(rank));
    }
  }
  if (missing.empty()) {
    return std::nullopt;
  }
  std::string text = fmt::format("{} {} been missing from {} for {}",
                                 format_ranks(missing),
                                 missing.size() == 1 ? "has" : "have",
                                 describe_call(mine),
                                 format_wait(now - mine.since));
  for (size_t i = 0; i < std::min(kMaxNamed, missing.size()); ++i) {
    const auto& seen = views[static_cast<size_t>(missing[i])];
    text += fmt::format(
        "; rank {} {}",
        missing[i],
        seen ? fmt::format("on {} was last seen {}", seen->host, describe_last(*seen, now))
             : "has not been seen yet");
  }
  if (missing.size() > kMaxNamed) {
    text += fmt::format("; and {} more", missing.size() - kMaxNamed);
  }
  return text +
         fmt::format("; {} {}", format_ranks(waiting), waiting.size() == 1 ? "waits" : "wait");
}

std::string describe_hang(const WorkerViews& views, int me, double now) {
  const Seen& mine = *views[static_cast<size_t>(me)];
  return fmt::format(
      "no rank is missing, but rank {} has been in {} for {}: the transport hangs or is slow",
      me,
      describe_call(mine),
      format_wait(now - mine.since));
}

}  // namespace lockstep::comm
