// SPDX-License-Identifier: Apache-2.0
#include "common/image/candidates.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

#include "common/image/drawn.h"
#include "common/image/layout.h"
#include "common/image/pack.h"
#include "lockstep/error.h"

namespace lockstep::image {

namespace {

// Generated images have the layout and packs of TinyImageNet, but are another data set.
std::string title_of(const Search& search, const Sets& sets) {
  return is_drawn(sets.train->classes()) ? "generated images" : search.title;
}

std::optional<Sets> find_any_packs(const Search& search) {
  for (const std::filesystem::path& directory : search.directories) {
    if (std::optional<Sets> packs = find_packs(directory, search.word)) {
      packs->origin = fmt::format("{} in {}", title_of(search, *packs), packs->origin);
      if (!packs->source.empty()) {
        packs->origin += fmt::format(", packed from {}", packs->source);
      }
      return packs;
    }
  }
  return std::nullopt;
}

// The last component of a path, which can end in a slash or be ".".
std::string name_of(const std::filesystem::path& directory) {
  const std::filesystem::path whole = std::filesystem::absolute(directory).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

}  // namespace

// Packs in any directory win over folders in an earlier one: a user who has packed a data set
// expects the packs to be used. Each rejected directory becomes a line of the error.
Sets find_sets(const Search& search, const std::filesystem::path& data_dir, Look look) {
  if (look == Look::PacksFirst) {
    if (std::optional<Sets> packs = find_any_packs(search)) {
      return *std::move(packs);
    }
  }
  Error nowhere(ExitCode::Io, fmt::format("cannot find {} in {}", search.title, data_dir.string()));
  for (const std::filesystem::path& directory : search.directories) {
    const std::string objection =
        has_folder(directory) ? search.objection(directory) : "no such directory";
    if (objection.empty()) {
      Sets sets = search.open(directory);
      sets.origin = fmt::format("{} in {}", title_of(search, sets), directory.string());
      sets.source = name_of(directory);
      return sets;
    }
    nowhere.fact("searched", directory.string(), objection);
  }
  for (const std::string& hint : search.hints) {
    nowhere.hint(hint);
  }
  throw Error(nowhere);
}

}  // namespace lockstep::image
