// SPDX-License-Identifier: Apache-2.0
#include "image/candidates.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

#include "image/layout.h"
#include "image/pack.h"
#include "lockstep/error.h"

namespace lockstep::image {

namespace {

std::optional<Sets> find_any_packs(const Search& search) {
  for (const std::filesystem::path& directory : search.directories) {
    if (std::optional<Sets> packs = find_packs(directory, search.word)) {
      packs->origin = fmt::format("{} in {}", search.title, packs->origin);
      return packs;
    }
  }
  return std::nullopt;
}

}  // namespace

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
      sets.origin = fmt::format("{} in {}", search.title, directory.string());
      return sets;
    }
    nowhere.fact("looked in", directory.string(), objection);
  }
  for (const std::string& hint : search.hints) {
    nowhere.hint(hint);
  }
  throw Error(nowhere);
}

}  // namespace lockstep::image
