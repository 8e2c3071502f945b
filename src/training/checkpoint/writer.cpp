// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "training/checkpoint/draft.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/pt_file.h"

namespace lockstep {

CheckpointWriter::CheckpointWriter(std::filesystem::path root, CheckpointState state)
    : root_(std::move(root)), state_(std::move(state)) {}

void CheckpointWriter::add_tensors(std::string_view part, const NamedTensors& tensors) {
  add(part, checkpoint::to_pt(checkpoint::as_value(tensors)));
}

void CheckpointWriter::add_value(std::string_view part, const c10::IValue& value) {
  add(part, checkpoint::to_pt(value));
}

void CheckpointWriter::add_text(std::string_view part, std::string_view text) {
  add(part, std::string(text));
}

// Parts are kept as bytes: tensors are serialized when they are added and not in commit(), so that
// the caller can change them afterwards.
void CheckpointWriter::add(std::string_view part, std::string bytes) {
  const bool known =
      std::ranges::any_of(parts_, [&](const auto& other) { return other.first == part; });
  if (known || !checkpoint::is_part_name(part)) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot add the part \"{}\" to a checkpoint: {}",
                            part,
                            known ? "this name is already used" : "not a plain file name"));
  }
  parts_.emplace_back(part, std::move(bytes));
}

uint64_t CheckpointWriter::bytes() const {
  uint64_t total = 0;
  for (const auto& [name, bytes] : parts_) {
    total += bytes.size();
  }
  return total;
}

// A checkpoint of version 1: one process writes all parts. The order of writes and renames is that
// of complete.cpp, without shards of other ranks. If anything throws, ~Draft removes the directory.
std::filesystem::path CheckpointWriter::commit() {
  checkpoint::Manifest manifest;
  const std::string state = checkpoint::to_json(state_);
  try {
    os::make_directories(root_);
    // Before the new draft, so that leftovers of a killed writer do not fill the disk.
    checkpoint::remove_leftovers(root_);
    checkpoint::Draft draft(root_, state_.step);
    const auto write = [&](std::string_view name, std::string_view bytes) {
      draft.write(name, bytes);
      manifest[std::string(name)] = {.bytes = bytes.size(),
                                     .checksum = checkpoint::checksum(bytes)};
    };
    for (const auto& [name, bytes] : parts_) {
      write(name, bytes);
    }
    write(checkpoint::kStateFile, state);
    const std::string text = checkpoint::to_json(manifest);
    draft.write(checkpoint::kManifestFile, text);
    draft.publish(checkpoint::complete_text(text));
  } catch (Error& error) {
    checkpoint::explain_space(error, root_, bytes());
    throw;
  }
  return root_ / checkpoint::directory_name(state_.step);
}

}  // namespace lockstep
