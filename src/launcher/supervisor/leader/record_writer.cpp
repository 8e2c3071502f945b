// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervisor/leader/record_writer.h"

#include <fmt/format.h>

namespace lockstep::supervisor {
namespace {

// A number comes from a message of an agent. It becomes part of a file name, and every file costs a
// descriptor.
constexpr size_t kMaxOpen = 256;
constexpr int kMaxNumber = 10'000'000;

}  // namespace

RecordWriter::RecordWriter(contract::RunDirectory directory,
                           WriteFaults& faults,
                           os::RotatingFile::Limits limits)
    : directory_(std::move(directory)), faults_(faults), limits_(limits) {}

std::filesystem::path RecordWriter::path_of(const Recorded& recorded) const {
  return recorded.kind == Recorded::Kind::Samples ? directory_.node_samples(recorded.number)
                                                  : directory_.output_metrics(recorded.number);
}

void RecordWriter::write(const Recorded& recorded) {
  if (recorded.number < 0 || recorded.number > kMaxNumber || recorded.lines.empty()) {
    return;
  }
  const std::pair key(recorded.kind, recorded.number);
  auto file = files_.find(key);
  if (file == files_.end()) {
    if (files_.size() >= kMaxOpen) {
      files_.clear();  // saves descriptors; a file can be opened again at any time
    }
    file = files_.try_emplace(key, path_of(recorded), limits_).first;
  }
  if (!file->second.append(recorded.lines)) {
    faults_.take(
        fmt::format("cannot write {}: {}", file->second.path().string(), file->second.fault()));
  }
}

}  // namespace lockstep::supervisor
