// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/hosts.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>
#include <set>

#include "common/base/text.h"
#include "common/cluster/host_text.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

constexpr std::string_view kHostHint = "h1:4,h2:2 or n[1-3]:4; an IPv6 address as [fd00::1]:4";
constexpr std::string_view kFileHint = "lines such as 'h1 slots=4', 'h1:4' or 'h1'";

int require_slots(std::string_view text,
                  std::string_view part,
                  const HostText& source,
                  std::string_view hint) {
  const auto slots = find_integer(text);
  if (!slots || *slots < 1 || *slots > kMaxSlots) {
    source.refuse(part, fmt::format("slots from 1 to {}", kMaxSlots), hint);
  }
  return static_cast<int>(*slots);
}

// Hosts in the order of the list, without duplicates. mpirun adds up the slots of a repeated host
// and deepspeed rejects it; here it is an error, because either reading could be meant.
class HostSet {
 public:
  void add(const HostItem& item,
           std::optional<int> slots,
           std::string_view part,
           const HostText& source) {
    require_room(hosts_.size() + item.names.size(), part, source);
    for (const std::string& name : item.names) {
      if (!names_.insert(name).second) {
        source.refuse(
            name, "each host once", fmt::format("{}:2, for two workers on that host", name));
      }
      hosts_.push_back({.name = name, .slots = slots, .gpus = {}});
    }
  }
  std::vector<Host> take() { return std::move(hosts_); }
  bool is_empty() const { return hosts_.empty(); }

 private:
  std::set<std::string> names_;
  std::vector<Host> hosts_;
};

std::vector<std::string_view> split_words(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r";
  std::vector<std::string_view> words;
  for (size_t start = line.find_first_not_of(kBlanks); start != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kBlanks, start), line.size());
    words.push_back(line.substr(start, end - start));
    start = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

// One grammar for three tools: deepspeed and Open MPI write "h1 slots=4", horovodrun "h1:4". Other
// words of Open MPI, such as max_slots=, are rejected instead of ignored.
void read_hostfile_line(const std::vector<std::string_view>& words,
                        const HostText& source,
                        HostSet& hosts) {
  constexpr std::string_view kSlots = "slots=";
  const HostItem item = read_host_item(words.front(), source, kFileHint);
  std::optional<int> slots;
  if (item.tail) {
    slots = require_slots(*item.tail, words.front(), source, kFileHint);
  }
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (!word.starts_with(kSlots) || slots) {
      source.refuse(word, "a host and at most one number of slots", kFileHint);
    }
    slots = require_slots(word.substr(kSlots.size()), word, source, kFileHint);
  }
  hosts.add(item, slots, words.front(), source);
}

}  // namespace

// The limit on the total is checked item by item, before the names are kept.
std::vector<std::string> expand_hostlist(std::string_view text, std::string_view what) {
  const HostText source(what, text);
  std::vector<std::string> names;
  for (const std::string_view item : split_outside_brackets(text, ',')) {
    std::vector<std::string> more = expand_name(item, source);
    require_room(names.size() + more.size(), item, source);
    std::move(more.begin(), more.end(), std::back_inserter(names));
  }
  return names;
}

// Slurm compresses equal neighbours: SLURM_TASKS_PER_NODE="2(x3),1" is 2, 2, 2, 1, in the order of
// the node list.
std::vector<int> expand_counts(std::string_view text, std::string_view what) {
  constexpr std::string_view kHint = "counts such as 2(x3),1";
  const HostText source(what, text);
  std::vector<int> counts;
  for (const std::string_view part : split_outside_brackets(text, ',')) {
    const size_t open = std::min(part.find("(x"), part.size());
    const std::string_view repeat = part.substr(open);
    const bool is_closed = repeat.size() > 3 && repeat.back() == ')';
    const auto count = find_integer(part.substr(0, open));
    const auto times = find_integer(is_closed        ? repeat.substr(2, repeat.size() - 3)
                                    : repeat.empty() ? "1"
                                                     : "");
    if (!count || *count < 0 || *count > kMaxSlots || times.value_or(0) < 1) {
      source.refuse(part, "COUNT or COUNT(xTIMES)", kHint);
    }
    if (*times > static_cast<int64_t>(kMaxHosts - counts.size())) {
      source.refuse(part, fmt::format("at most {} counts", kMaxHosts), kHint);
    }
    counts.insert(counts.end(), static_cast<size_t>(*times), static_cast<int>(*count));
  }
  return counts;
}

std::vector<Host> parse_hosts(std::string_view text) {
  const HostText source("host list", text);
  HostSet hosts;
  for (const std::string_view part : split_outside_brackets(text, ',')) {
    const HostItem item = read_host_item(part, source, kHostHint);
    std::optional<int> slots;
    if (item.tail) {
      slots = require_slots(*item.tail, part, source, kHostHint);
    }
    hosts.add(item, slots, part, source);
  }
  return hosts.take();
}

std::vector<Host> parse_hostfile(std::string_view text, std::string_view name) {
  HostSet hosts;
  int number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    const std::string_view content = std::string_view(line).substr(0, line.find('#'));
    const std::vector<std::string_view> words = split_words(content);
    if (!words.empty()) {
      // For messages: the line without its comment and surrounding blanks.
      const std::string_view trimmed(
          words.front().data(),
          static_cast<size_t>(words.back().data() + words.back().size() - words.front().data()));
      read_hostfile_line(words, HostText(fmt::format("line {}:{}", name, number), trimmed), hosts);
    }
  }
  if (hosts.is_empty()) {
    throw Error(ExitCode::Usage, fmt::format("{} contains no host", name)).hint(kFileHint);
  }
  return hosts.take();
}

}  // namespace lockstep::cluster
