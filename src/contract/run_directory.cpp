// SPDX-License-Identifier: Apache-2.0
#include "contract/run_directory.h"

#include <fmt/format.h>

namespace lockstep::contract {

std::filesystem::path RunDirectory::log(int attempt, int rank) const {
  return root_ / "logs" / fmt::format("attempt-{}", attempt) / fmt::format("rank-{}.log", rank);
}

std::filesystem::path RunDirectory::events(int rank) const {
  return root_ / "events" / fmt::format("rank-{}.jsonl", rank);
}

}  // namespace lockstep::contract
