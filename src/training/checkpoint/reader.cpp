// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <system_error>

#include "common/base/log.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/piece_sources.h"

namespace lockstep {
namespace checkpoint {
namespace {

Error damaged(const std::filesystem::path& directory, std::string_view why) {
  return Error(ExitCode::Io, fmt::format("cannot use checkpoint {}: {}", directory.string(), why));
}

void verify(const std::filesystem::path& directory,
            const std::string& name,
            const ManifestEntry& written) {
  std::error_code unknown;
  if (!std::filesystem::exists(directory / name, unknown)) {
    throw damaged(directory, fmt::format("{} is missing", name));
  }
  const ManifestEntry found = measure(directory / name);
  if (found.bytes != written.bytes) {
    throw damaged(directory, fmt::format("{} has the wrong size", name))
        .fact("expected", fmt::format("{} bytes", written.bytes), std::string(kManifestFile))
        .fact("found", fmt::format("{} bytes", found.bytes), name);
  }
  if (found.checksum != written.checksum) {
    throw damaged(directory, fmt::format("{} is damaged", name))
        .fact("expected", fmt::format("XXH3 {:016x}", written.checksum), std::string(kManifestFile))
        .fact("found", fmt::format("XXH3 {:016x}", found.checksum), name);
  }
}

}  // namespace
}  // namespace checkpoint

CheckpointReader::CheckpointReader(std::filesystem::path directory)
    : CheckpointReader(std::move(directory), true) {}

CheckpointReader CheckpointReader::verified(std::filesystem::path directory) {
  return {std::move(directory), false};
}

// Checks in the order of the promises: COMPLETE exists, COMPLETE matches the manifest, and the
// manifest matches every file. verified() skips the last check for a caller on another rank that
// knows that rank 0 has done it: each rank would otherwise read the whole checkpoint.
CheckpointReader::CheckpointReader(std::filesystem::path directory, bool verify)
    : directory_(std::move(directory)) {
  const std::filesystem::path manifest_file = directory_ / checkpoint::kManifestFile;
  std::error_code unknown;
  if (!std::filesystem::exists(directory_ / checkpoint::kCompleteFile, unknown)) {
    throw checkpoint::damaged(directory_, "it is incomplete (no file COMPLETE)");
  }
  if (!std::filesystem::exists(manifest_file, unknown)) {
    throw checkpoint::damaged(directory_, "manifest.json is missing");
  }
  const std::string text = os::read_file(manifest_file);
  const std::string complete = os::read_file(directory_ / checkpoint::kCompleteFile);
  if (complete != checkpoint::complete_text(text)) {
    throw checkpoint::damaged(directory_, "the checksum in COMPLETE does not match manifest.json");
  }
  const checkpoint::Manifest manifest = checkpoint::parse_manifest(text, manifest_file);
  for (const auto& [name, entry] : manifest) {
    if (verify) {
      checkpoint::verify(directory_, name, entry);
    }
    parts_.push_back(name);
  }
  const std::filesystem::path state_file = path(checkpoint::kStateFile);
  state_ = checkpoint::parse_state(os::read_file(state_file), state_file);
}

// Only version 2 has a table of tensors in its manifest.
std::unique_ptr<PieceSource> CheckpointReader::pieces() const {
  const std::filesystem::path file = directory_ / checkpoint::kManifestFile;
  checkpoint::TensorTable tensors = checkpoint::parse_tensors(os::read_file(file), file);
  return tensors.empty() ? checkpoint::read_parts(*this)
                         : checkpoint::open_shards(directory_, parts_, std::move(tensors));
}

bool CheckpointReader::has(std::string_view part) const {
  return std::ranges::find(parts_, part) != parts_.end();
}

std::filesystem::path CheckpointReader::path(std::string_view part) const {
  if (!has(part)) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot find \"{}\" in checkpoint {}", part, directory_.string()))
        .fact("parts", fmt::format("{}", fmt::join(parts_, ", ")), "manifest.json");
  }
  return directory_ / part;
}

NamedTensors CheckpointReader::tensors(std::string_view part) const {
  return load_weights(path(part));
}

c10::IValue CheckpointReader::value(std::string_view part) const {
  return load_value(path(part));
}

std::string CheckpointReader::text(std::string_view part) const {
  return os::read_file(path(part));
}

std::optional<CheckpointReader> find_latest_checkpoint(const std::filesystem::path& root,
                                                       const DamageReport& on_damaged) {
  std::vector<CheckpointEntry> entries = list_checkpoints(root);
  // From the newest on. Entries without COMPLETE are not in the list.
  for (; !entries.empty(); entries.pop_back()) {
    try {
      return CheckpointReader(entries.back().directory);
    } catch (const Error& error) {
      // A checkpoint of a newer format (Usage) is not damaged. To skip it would silently go back to
      // an older step.
      if (error.code() != ExitCode::Io) {
        throw;
      }
      if (on_damaged) {
        on_damaged(error);
      } else {
        log::warn("skipping a damaged checkpoint: {}", error.what());
      }
    }
  }
  return std::nullopt;
}

}  // namespace lockstep
