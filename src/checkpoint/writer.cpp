// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <system_error>

#include "base/log.h"
#include "base/text.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest.h"
#include "checkpoint/pt_file.h"
#include "lockstep/checkpoint.h"
#include "os/files.h"

namespace lockstep {
namespace checkpoint {
namespace {

// The directory that a commit works in. Whatever it is called when it goes away without keep(), it
// leaves nothing behind.
class Draft {
 public:
  Draft(const std::filesystem::path& root, int64_t step)
      : path_(partial_path(root, step)), target_(root / directory_name(step)) {
    os::remove_tree(path_);
    os::make_directories(path_);
    lock_ = os::DirectoryLock::find(path_);
  }
  ~Draft() {
    if (path_.empty()) {
      return;
    }
    try {
      os::remove_tree(path_);
    } catch (const Error& error) {
      log::warn("a part of a checkpoint stays behind: {}", error.what());
    }
  }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  void write(std::string_view name, std::string_view bytes) const {
    os::write_file(path_ / name, bytes);
  }

  // COMPLETE comes last, when the name is on the disk. Until then the next commit would remove it.
  void publish(std::string_view complete) {
    os::sync_directory(path_);
    const std::filesystem::path root = target_.parent_path();
    std::error_code unknown;
    if (std::filesystem::exists(target_, unknown)) {
      replace(complete);
    } else {
      os::rename_path(path_, target_);
      path_ = target_;
      os::sync_directory(root);
      os::atomic_write(path_ / kCompleteFile, complete);
    }
    os::sync_directory(root);
    path_.clear();
  }

 private:
  // Where a complete checkpoint of the same step exists, the new one is completed first, so that
  // there is one of the two under the name at every instant.
  void replace(std::string_view complete) {
    os::atomic_write(path_ / kCompleteFile, complete);
    if (os::exchange_paths(path_, target_)) {
      os::sync_directory(target_.parent_path());
      os::remove_tree(path_);
    } else {
      discard(target_);
      os::rename_path(path_, target_);
    }
  }

  std::filesystem::path path_;
  std::filesystem::path target_;
  std::optional<os::DirectoryLock> lock_;
};

std::string describe_previous(const std::filesystem::path& root) {
  try {
    const std::vector<CheckpointEntry> entries = list_checkpoints(root);
    return entries.empty() ? "no earlier checkpoint exists"
                           : fmt::format("the previous checkpoint, {}, is untouched",
                                         entries.back().directory.filename().string());
  } catch (const Error& error) {
    return error.sentence();
  }
}

// Tells what a person with a full disk wants to know.
void explain(Error& error, const std::filesystem::path& root, uint64_t bytes) {
  error.fact("needed", format_bytes(bytes), "this checkpoint");
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(root, unknown);
  if (!unknown) {
    error.fact("free", format_bytes(space.available), root.string());
  }
  error.fact("kept", describe_previous(root));
}

}  // namespace
}  // namespace checkpoint

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

void CheckpointWriter::add(std::string_view part, std::string bytes) {
  const bool known =
      std::ranges::any_of(parts_, [&](const auto& other) { return other.first == part; });
  if (known || !checkpoint::is_part_name(part)) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot add the part \"{}\" to a checkpoint: {}",
                            part,
                            known ? "it has one of that name" : "that is no plain file name"));
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

std::filesystem::path CheckpointWriter::commit() {
  checkpoint::Manifest manifest;
  const std::string state = checkpoint::to_json(state_);
  try {
    os::make_directories(root_);
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
    checkpoint::explain(error, root_, bytes());
    throw;
  }
  return root_ / checkpoint::directory_name(state_.step);
}

}  // namespace lockstep
