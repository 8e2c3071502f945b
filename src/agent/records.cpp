// SPDX-License-Identifier: Apache-2.0
#include "agent/records.h"

#include <fmt/format.h>

namespace lockstep::agent {
namespace {

constexpr size_t kMostOpen = 256;
constexpr int kMostNumber = 10'000'000;

}  // namespace

Records::Records(contract::RunDirectory directory,
                 std::function<void(const std::string&)> warn,
                 os::RotatingFile::Limits limits)
    : directory_(std::move(directory)), warn_(std::move(warn)), limits_(limits) {}

std::filesystem::path Records::path_of(const Recorded& recorded) const {
  return recorded.kind == Recorded::Kind::Samples ? directory_.node_samples(recorded.number)
                                                  : directory_.output_metrics(recorded.number);
}

void Records::write(const Recorded& recorded) {
  if (recorded.number < 0 || recorded.number > kMostNumber || recorded.lines.empty()) {
    return;
  }
  const std::pair key(recorded.kind, recorded.number);
  auto file = files_.find(key);
  if (file == files_.end()) {
    if (files_.size() >= kMostOpen) {
      files_.clear();  // descriptors are for workers; a file is soon opened again
    }
    file = files_.try_emplace(key, path_of(recorded), limits_).first;
  }
  if (!file->second.append(recorded.lines) && !has_warned_) {
    has_warned_ = true;
    warn_(
        fmt::format("cannot write {} ({}); the run goes on, and what is to be seen of it may "
                    "have gaps",
                    file->second.path().string(),
                    file->second.fault()));
  }
}

}  // namespace lockstep::agent
