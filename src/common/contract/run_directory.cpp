// SPDX-License-Identifier: Apache-2.0
#include "common/contract/run_directory.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/text.h"

namespace lockstep::contract {
namespace {

// The numbers N of all names `begin`N`end` in a directory. Numbers are parsed, not compared as
// texts: rank-10 follows rank-9. A directory can change while it is read; an error then ends the
// listing with what was found.
std::vector<int> find_numbers(const std::filesystem::path& directory,
                              std::string_view begin,
                              std::string_view end) {
  std::vector<int> numbers;
  std::error_code fault;
  for (std::filesystem::directory_iterator entry(directory, fault), last; !fault && entry != last;
       entry.increment(fault)) {
    const std::string name = entry->path().filename().string();
    if (name.size() <= begin.size() + end.size() || !name.starts_with(begin) ||
        !name.ends_with(end)) {
      continue;
    }
    const auto number =
        find_integer(name.substr(begin.size(), name.size() - begin.size() - end.size()));
    if (number && *number >= 0) {
      numbers.push_back(static_cast<int>(*number));
    }
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

// "runs/a/" has no file name, and "." has none that is meaningful.
std::string RunDirectory::name() const {
  const auto plain = std::filesystem::absolute(root_).lexically_normal();
  return (plain.has_filename() ? plain : plain.parent_path()).filename().string();
}

bool RunDirectory::has_events() const {
  return !find_numbers(events(), "rank-", ".jsonl").empty() ||
         !find_numbers(events(), "output-", ".jsonl").empty() ||
         !find_numbers(events(), "node-", ".jsonl").empty();
}

std::filesystem::path RunDirectory::log(int attempt, int rank) const {
  return root_ / "logs" / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.log", rank);
}

std::filesystem::path RunDirectory::error(int attempt, int rank) const {
  return root_ / "logs" / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.error", rank);
}

std::filesystem::path RunDirectory::events(int rank) const {
  return root_ / "events" / fmt::format("rank-{}.jsonl", rank);
}

std::filesystem::path RunDirectory::output_metrics(int rank) const {
  return root_ / "events" / fmt::format("output-{}.jsonl", rank);
}

std::filesystem::path RunDirectory::node_samples(int node) const {
  return root_ / "events" / fmt::format("node-{}.jsonl", node);
}

std::vector<int> RunDirectory::find_attempts() const {
  return find_numbers(root_ / "logs", "attempt-", "");
}

std::vector<int> RunDirectory::find_logged_ranks(int attempt) const {
  return find_numbers(log(attempt, 0).parent_path(), "rank-", ".log");
}

}  // namespace lockstep::contract
