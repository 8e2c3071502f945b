// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <set>

#include "common/base/log.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/manifest.h"

namespace lockstep {
namespace checkpoint {
namespace {

std::optional<double> find_metric(const CheckpointEntry& entry, const std::string& name) {
  const std::filesystem::path file = entry.directory / kStateFile;
  try {
    const CheckpointState state = parse_state(os::read_file(file), file);
    const auto found = state.metrics.find(name);
    if (found != state.metrics.end() && !std::isnan(found->second)) {
      return found->second;
    }
  } catch (const Error& error) {
    log::warn("ignoring the metrics of a checkpoint: {}", error.what());
  }
  return std::nullopt;
}

// Of equal values the oldest stays the best, so that the link does not move on a plateau. A metric
// that is NaN or missing never is the best.
std::optional<CheckpointEntry> find_best(const std::vector<CheckpointEntry>& entries,
                                         const Retention& retention) {
  std::optional<CheckpointEntry> best;
  double best_value = 0;
  for (const CheckpointEntry& entry : entries) {
    const std::optional<double> value = find_metric(entry, *retention.best_metric);
    if (!value) {
      continue;
    }
    if (!best || (retention.best_is_max ? *value > best_value : *value < best_value)) {
      best = entry;
      best_value = *value;
    }
  }
  return best;
}

// By the modification time of COMPLETE, which the file system sets.
bool is_younger(const CheckpointEntry& entry, std::chrono::seconds age) {
  std::error_code unknown;
  const auto written = std::filesystem::last_write_time(entry.directory / kCompleteFile, unknown);
  return !unknown && std::filesystem::file_time_type::clock::now() - written < age;
}

// Replaced atomically, and only if it changes: readers may follow the link at any time.
void point_at_best(const std::filesystem::path& root, const CheckpointEntry& best) {
  const std::filesystem::path name = best.directory.filename();
  std::error_code no_link;
  if (std::filesystem::read_symlink(root / kBestLink, no_link) != name) {
    os::replace_link(root / kBestLink, name);
  }
}

bool is_sound(const CheckpointEntry& entry) {
  try {
    const CheckpointReader verified(entry.directory);
    return true;
  } catch (const Error& error) {
    log::warn("a checkpoint that should be kept is damaged: {}", error.what());
    return false;
  }
}

}  // namespace
}  // namespace checkpoint

std::vector<CheckpointEntry> prune_checkpoints(const std::filesystem::path& root,
                                               const Retention& retention) {
  const std::vector<CheckpointEntry> entries = list_checkpoints(root);
  // The newest `keep` stay. Others are dropped unless they are young or the best.
  const auto keep = static_cast<size_t>(std::max(1, retention.keep_last));
  std::vector<CheckpointEntry> drop(
      entries.begin(), entries.end() - static_cast<ptrdiff_t>(std::min(keep, entries.size())));
  std::vector<CheckpointEntry> stay(entries.begin() + static_cast<ptrdiff_t>(drop.size()),
                                    entries.end());
  if (retention.keep_for.count() > 0) {
    std::erase_if(drop, [&](const CheckpointEntry& entry) {
      return checkpoint::is_younger(entry, retention.keep_for);
    });
  }
  if (retention.best_metric) {
    if (const auto best = checkpoint::find_best(entries, retention)) {
      checkpoint::point_at_best(root, *best);
      if (std::erase(drop, *best) != 0) {
        stay.insert(stay.begin(), *best);
      }
    }
  }
  if (drop.empty()) {
    return {};
  }
  // At least one remaining checkpoint must be readable before others are deleted. The newest is
  // verified first, because it was just written and is still in the page cache.
  if (std::none_of(stay.rbegin(), stay.rend(), checkpoint::is_sound)) {
    log::warn("deleting no checkpoints below {}: all that should be kept are damaged",
              root.string());
    return {};
  }
  for (const CheckpointEntry& entry : drop) {
    checkpoint::discard(entry.directory);
  }
  return drop;
}

}  // namespace lockstep
