// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/node/log_files.h"

#include <fmt/format.h>
#include <string>
#include <string_view>

#include "common/contract/run_directory.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;

bool has_bit(const plan::StreamRule& rule, int local_rank, int bit) {
  const auto found = rule.by_local.find(local_rank);
  const int bits = found == rule.by_local.end() ? rule.fallback : found->second;
  return (bits & bit) != 0;
}

// LOG_DIR/RUN_ID/attempt_0/0, the layout of torchrun.
fs::path torchrun_directory(const std::string& log_dir, const contract::WorkerSpec& spec) {
  const std::string of_node =
      spec.nodes == 1 ? spec.run_id : fmt::format("{}_{}", spec.run_id, spec.node_rank);
  return fs::path(log_dir) / of_node / fmt::format("attempt_{}", spec.attempt) /
         std::to_string(spec.local_rank);
}

// DIR/rank.03, with as many digits as the highest rank, as in horovodrun.
fs::path horovod_directory(const std::string& directory, const contract::WorkerSpec& spec) {
  const size_t digits = std::to_string(spec.world_size - 1).size();
  return fs::path(directory) / fmt::format("rank.{:0{}}", spec.rank, digits);
}

}  // namespace

// As in torchrun: --redirects takes a stream away from the console, --tee writes it to the file as
// well, and --tee wins. Both only add files. The log in the run directory always has both streams.
LogFiles log_files(const plan::OutputRules& rules, const contract::WorkerSpec& spec) {
  constexpr std::array<std::string_view, 2> kNames = {"stdout", "stderr"};
  LogFiles files;
  if (!spec.run_directory.empty()) {
    files.log = contract::RunDirectory(spec.run_directory).log(spec.attempt, spec.rank);
  }
  const bool is_let_through =
      rules.local_ranks_filter.empty() || rules.local_ranks_filter.contains(spec.local_rank);
  for (size_t stream = 0; stream < files.streams.size(); ++stream) {
    const int bit = stream == 0 ? 1 : 2;
    const bool is_redirected = has_bit(rules.redirects, spec.local_rank, bit);
    const bool is_teed = has_bit(rules.tee, spec.local_rank, bit);
    LogFiles::OfStream& one = files.streams.at(stream);
    if (!rules.log_dir.empty() && (is_redirected || is_teed)) {
      one.torchrun =
          torchrun_directory(rules.log_dir, spec) / fmt::format("{}.log", kNames.at(stream));
    }
    if (!rules.output_filename.empty()) {
      one.horovod = horovod_directory(rules.output_filename, spec) / kNames.at(stream);
    }
    one.is_shown = is_let_through && (is_teed || !is_redirected);
  }
  return files;
}

}  // namespace lockstep::supervisor
