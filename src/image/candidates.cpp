// SPDX-License-Identifier: Apache-2.0
#include "image/candidates.h"

#include <fmt/format.h>
#include <optional>
#include <utility>

#include "image/layout.h"
#include "image/pack.h"
#include "lockstep/error.h"

namespace lockstep::image {

Sets find_sets(const Search& search, const std::filesystem::path& data_dir) {
  Error nowhere(ExitCode::Io, fmt::format("cannot find {} in {}", search.title, data_dir.string()));
  for (const std::filesystem::path& directory : search.directories) {
    if (std::optional<Sets> packs = find_packs(directory, search.word)) {
      packs->origin = fmt::format("{} in {}", search.title, packs->origin);
      return *std::move(packs);
    }
  }
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
  throw nowhere;
}

}  // namespace lockstep::image
