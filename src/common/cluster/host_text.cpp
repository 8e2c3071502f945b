// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/host_text.h"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::cluster {
namespace {

// 10^18 fits into int64_t.
constexpr size_t kMaxDigits = 18;
constexpr int kMaxBrackets = 16;
constexpr size_t kLongestName = 255;  // limit of DNS
constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
constexpr std::string_view kListHint = "a list such as n[1-3,7],login";

// One end of a range: "08" keeps two digits.
int64_t require_index(std::string_view text, std::string_view part, const HostText& source) {
  const bool is_plain = !text.empty() && text.size() <= kMaxDigits &&
                        text.find_first_not_of(kDigits) == std::string_view::npos;
  if (!is_plain) {
    source.refuse(part, "a number or a range such as 08-10", kListHint);
  }
  return *find_integer(text);
}

// "08-10,12" is 08, 09, 10, 12. Slurm pads to the width of the lower end: "08-10" is 08, 09, 10,
// and "8-10" is 8, 9, 10.
std::vector<std::string> expand_ranges(std::string_view text, const HostText& source) {
  std::vector<std::string> indices;
  for (const std::string_view part : split_outside_brackets(text, ',')) {
    const size_t dash = part.find('-');
    const std::string_view low = part.substr(0, dash);
    const int64_t first = require_index(low, part, source);
    const int64_t last =
        dash == std::string_view::npos ? first : require_index(part.substr(dash + 1), part, source);
    if (last < first) {
      source.refuse(part, "an ascending range", fmt::format("{}-{}", part.substr(dash + 1), low));
    }
    require_room(indices.size() + static_cast<size_t>(last - first) + 1, part, source);
    for (int64_t index = first; index <= last; ++index) {
      indices.push_back(fmt::format("{:0{}}", index, low.size()));
    }
  }
  return indices;
}

// Names are passed to ssh and used in file names: allow only characters of host names, and no
// leading dash.
void require_name(std::string_view name, std::string_view part, const HostText& source) {
  if (name.empty() || name.front() == '-' ||
      name.find_first_not_of(kLetters) != std::string_view::npos) {
    source.refuse(part, "a host name: letters, digits, '-', '.' and '_'", kListHint);
  }
}

// "fe80::1%eth0": the part after % is an interface.
bool is_address(std::string_view text) {
  const size_t percent = text.find('%');
  const std::string_view digits = text.substr(0, percent);
  const std::string_view interface =
      percent == std::string_view::npos ? "none" : text.substr(percent + 1);
  return digits.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos &&
         !interface.empty() && interface.find_first_not_of(kLetters) == std::string_view::npos;
}

// "[fd00::1]" is an address, not a range of a hostlist.
bool is_address_in_brackets(std::string_view item) {
  const size_t close = item.find(']');
  return item.starts_with('[') && close != std::string_view::npos &&
         item.substr(0, close).find(':') != std::string_view::npos;
}

}  // namespace

std::string quote(std::string_view text) {
  constexpr size_t kMaximum = 160;
  return text.size() <= kMaximum ? fmt::format("'{}'", text)
                                 : fmt::format("'{}...'", text.substr(0, kMaximum));
}

HostText::HostText(std::string_view what, std::string_view text)
    : sentence_(fmt::format("invalid {} {}", what, quote(text))) {}

void HostText::refuse(std::string_view part,
                      std::string_view expected,
                      std::string_view hint) const {
  throw Error(ExitCode::Usage, sentence_)
      .fact("found", part.empty() ? "nothing" : quote(part))
      .fact("expected", expected)
      .hint(hint);
}

void require_room(size_t hosts, std::string_view part, const HostText& source) {
  if (hosts > kMaxHosts) {
    source.refuse(part, fmt::format("at most {} names", kMaxHosts), "use a shorter range");
  }
}

// An unmatched ']' makes the depth negative, which also hides separators; expand_name() reports the
// brackets then.
std::vector<std::string_view> split_outside_brackets(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '[' ? 1 : 0;
    depth -= text[i] == ']' ? 1 : 0;
    if (text[i] == separator && depth == 0) {
      pieces.push_back(text.substr(start, i - start));
      start = i + 1;
    }
  }
  pieces.push_back(text.substr(start));
  return pieces;
}

// Appends one plain part and one bracket at a time to all names so far: the cross product, with the
// last bracket fastest. The room is checked before each product, because a short text such as
// "[0-99999][0-99999]" can ask for any number of names.
std::vector<std::string> expand_name(std::string_view item, const HostText& source) {
  if (std::count(item.begin(), item.end(), '[') > kMaxBrackets) {
    source.refuse(item, fmt::format("at most {} brackets in a name", kMaxBrackets), kListHint);
  }
  std::vector<std::string> names = {""};
  std::string_view rest = item;
  for (;;) {
    const size_t open = rest.find('[');
    const size_t close = rest.find(']');
    const std::string_view plain = rest.substr(0, std::min(open, close));
    if (names.front().size() + plain.size() > kLongestName) {
      source.refuse(item, fmt::format("names of at most {} characters", kLongestName), kListHint);
    }
    for (std::string& name : names) {
      name += plain;
    }
    if (open == std::string_view::npos && close == std::string_view::npos) {
      break;
    }
    if (open == std::string_view::npos || close == std::string_view::npos || close < open) {
      source.refuse(item, "matching brackets", kListHint);
    }
    const std::vector<std::string> indices =
        expand_ranges(rest.substr(open + 1, close - open - 1), source);
    require_room(names.size() * indices.size(), item, source);
    std::vector<std::string> longer;
    longer.reserve(names.size() * indices.size());
    for (const std::string& name : names) {
      std::transform(indices.begin(),
                     indices.end(),
                     std::back_inserter(longer),
                     [&name](const std::string& index) { return name + index; });
    }
    names = std::move(longer);
    rest.remove_prefix(close + 1);
  }
  require_name(names.front(), item, source);
  return names;
}

HostItem read_host_item(std::string_view item, const HostText& source, std::string_view hint) {
  if (is_address_in_brackets(item)) {
    const size_t close = item.find(']');
    const std::string_view address = item.substr(1, close - 1);
    const std::string_view tail = item.substr(close + 1);
    if (!is_address(address) || !(tail.empty() || tail.starts_with(':'))) {
      source.refuse(item, "an IPv6 address in brackets", hint);
    }
    return {{std::string(address)}, tail.empty() ? std::nullopt : std::optional(tail.substr(1))};
  }
  const size_t colon = item.find(':');
  if (colon == std::string_view::npos) {
    return {expand_name(item, source), std::nullopt};
  }
  if (item.find(':', colon + 1) != std::string_view::npos) {
    source.refuse(item, "one colon, or an IPv6 address in brackets", hint);
  }
  return {expand_name(item.substr(0, colon), source), item.substr(colon + 1)};
}

}  // namespace lockstep::cluster
