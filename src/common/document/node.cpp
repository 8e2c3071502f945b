// SPDX-License-Identifier: Apache-2.0
#include "common/document/node.h"

#include <algorithm>
#include <fmt/format.h>

namespace lockstep::document {

std::string describe(const Place& place) {
  return place.line == 0 ? place.file
                         : fmt::format("{}:{}:{}", place.file, place.line, place.column);
}

const Node* Node::find(std::string_view key) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [key](const Entry& e) { return e.key == key; });
  return found == entries.end() ? nullptr : &found->value;
}

Error not_read(const std::string& why, const Place& place) {
  return Error(ExitCode::Usage, fmt::format("cannot read {}: {}", place.file, why))
      .fact("where", describe(place));
}

Error too_deep(const Place& place) {
  return not_read(fmt::format("more than {} levels of nesting", kDeepest), place);
}

void require_new_key(const Node& map,
                     std::string_view key,
                     const Place& place,
                     std::string_view name) {
  for (const Entry& earlier : map.entries) {
    if (earlier.key == key) {
      throw not_read(fmt::format("duplicate key '{}'", name), place)
          .fact("first", describe(earlier.place))
          .hint("remove one of them");
    }
  }
}

}  // namespace lockstep::document
