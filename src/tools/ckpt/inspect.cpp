// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/os/files.h"
#include "tools/ckpt/commands.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/manifest.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/checkpoint/shard.h"

namespace lockstep::ckpt {
namespace {

using Json = nlohmann::ordered_json;

uint64_t bytes_of(const PieceSource& tensors, const std::string& name) {
  uint64_t bytes = c10::elementSize(tensors.dtype(name));
  for (const int64_t extent : tensors.shape(name)) {
    bytes *= static_cast<uint64_t>(extent);
  }
  return bytes;
}

// A parameter that two modules share is saved under both names and counts twice.
uint64_t bytes_of(const PieceSource& tensors) {
  uint64_t bytes = 0;
  for (const std::string& name : tensors.names()) {
    bytes += bytes_of(tensors, name);
  }
  return bytes;
}

// The manifest lists every file with size and checksum; a checkpoint is complete only with it.
checkpoint::Manifest manifest_of(const CheckpointReader& reader) {
  const std::filesystem::path file = reader.directory() / checkpoint::kManifestFile;
  return checkpoint::parse_manifest(os::read_file(file), file);
}

// The type of the optimizer, for example "Adam", or "none".
std::string kind_of(const CheckpointReader& reader) {
  const std::string description = checkpoint::find_description(reader);
  return description.empty() ? "none" : Json::parse(description).at("kind").get<std::string>();
}

std::string strategy_of(const CheckpointState& state) {
  const auto found = state.notes.find("strategy");
  return found == state.notes.end() ? "unknown" : found->second;
}

// "bytes" is the size of the tensors; the sizes of files, with their headers, are in "files".
Json to_json(const Opened& opened) {
  Json json{{"path", opened.path.string()}};
  if (opened.checkpoint) {
    const CheckpointState& state = opened.checkpoint->state();
    json["step"] = state.step;
    json["epoch"] = state.epoch;
    json["step_in_epoch"] = state.step_in_epoch;
    json["world_size"] = state.world_size;
    json["strategy"] = strategy_of(state);
    json["global_batch"] = state.global_batch;
    json["optimizer"] = kind_of(*opened.checkpoint);
    json["metrics"] = state.metrics;
    json["files"] = Json::object();
    for (const auto& [name, file] : manifest_of(*opened.checkpoint)) {
      json["files"][name] = file.bytes;
    }
  }
  json["bytes"] = bytes_of(*opened.tensors);
  json["tensors"] = Json::object();
  for (const std::string& name : opened.tensors->names()) {
    json["tensors"][name] = {{"dtype", checkpoint::dtype_of(opened.tensors->dtype(name))},
                             {"shape", opened.tensors->shape(name)}};
  }
  return json;
}

void print_state(const CheckpointReader& reader) {
  const CheckpointState& state = reader.state();
  uint64_t bytes = 0;
  const checkpoint::Manifest files = manifest_of(reader);
  for (const auto& [name, file] : files) {
    bytes += file.bytes;
  }
  fmt::print("checkpoint  {}\n", reader.directory().string());
  fmt::print("step        {}: {} epochs and {} steps, global batch {}\n",
             state.step,
             state.epoch,
             state.step_in_epoch,
             state.global_batch);
  fmt::print("written by  {}, -s {}\n", plural(state.world_size, "worker"), strategy_of(state));
  fmt::print("optimizer   {}\n", kind_of(reader));
  for (const auto& [name, value] : state.metrics) {
    fmt::print("{:<11} {:.6g}\n", name, value);
  }
  fmt::print("files       {}, {}\n", files.size(), format_bytes(bytes));
}

// One line of the list.
struct Listed {
  std::string size;
  std::string flaw;  // empty: its files exist; checksums are not verified
  Json json;
};

// For a damaged checkpoint only the values from its name are known. CheckpointReader::verified()
// does not check the checksums, since reading all bytes of all checkpoints could take an hour;
// missing files are still found.
Listed look_at(const CheckpointEntry& entry) {
  Json json = {{"step", entry.step}, {"directory", entry.directory.string()}};
  try {
    const auto reader = CheckpointReader::verified(entry.directory);
    uint64_t bytes = 0;
    std::string missing;
    for (const auto& [name, file] : manifest_of(reader)) {
      bytes += file.bytes;
      std::error_code unknown;
      if (missing.empty() && !std::filesystem::exists(entry.directory / name, unknown)) {
        missing = name;
      }
    }
    json["bytes"] = bytes;
    json["missing"] = missing;
    json["world_size"] = reader.state().world_size;
    json["metrics"] = reader.state().metrics;
    return {.size = format_bytes(bytes),
            .flaw = missing.empty() ? "" : missing + " is missing",
            .json = std::move(json)};
  } catch (const Error& error) {
    json["damaged"] = error.what();
    return {.size = "-", .flaw = "damaged; see lockstep-ckpt verify", .json = std::move(json)};
  }
}

}  // namespace

void inspect(const InspectOptions& options) {
  const Opened opened = open(options.path, Look::AtHeaders, options.entry);
  if (options.json) {
    // Names of tensors come from files and need not be UTF-8, for which dump() would throw.
    fmt::print("{}\n", to_json(opened).dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  if (opened.checkpoint) {
    print_state(*opened.checkpoint);
  } else {
    fmt::print("file        {}\n", opened.path.string());
  }
  const std::vector<std::string> names = opened.tensors->names();
  fmt::print("tensors     {}, {}\n", names.size(), format_bytes(bytes_of(*opened.tensors)));
  size_t width = 0;
  for (const std::string& name : names) {
    width = std::max(width, name.size());
  }
  for (const std::string& name : names) {
    fmt::print("  {:<{}}  {:<4}  [{}]\n",
               name,
               width,
               checkpoint::dtype_of(opened.tensors->dtype(name)),
               fmt::join(opened.tensors->shape(name), ", "));
  }
}

void list(const InspectOptions& options) {
  Json all = Json::array();
  std::error_code unknown;
  if (!std::filesystem::is_directory(options.path, unknown)) {
    throw Error(ExitCode::Io,
                fmt::format("cannot list {}: not a directory", options.path.string()));
  }
  const std::vector<CheckpointEntry> entries = list_checkpoints(find_root(options.path));
  if (entries.empty()) {
    throw no_checkpoint(options.path);
  }
  for (const CheckpointEntry& entry : entries) {
    const Listed listed = look_at(entry);
    if (options.json) {
      all.push_back(listed.json);
    } else {
      fmt::print("{:>10}  {:>10}  {}{}\n",
                 entry.step,
                 listed.size,
                 entry.directory.string(),
                 listed.flaw.empty() ? "" : fmt::format("  ({})", listed.flaw));
    }
  }
  if (options.json) {
    fmt::print("{}\n", all.dump(2, ' ', false, Json::error_handler_t::replace));
  }
}

namespace {

void verify_one(const std::filesystem::path& path) {
  const Opened opened = open(path, Look::AtAllBytes);
  const size_t files = opened.checkpoint ? manifest_of(*opened.checkpoint).size() : 1;
  fmt::print("{} is intact: {}, {} tensors, {}\n",
             opened.path.string(),
             plural(static_cast<int64_t>(files), "file"),
             opened.tensors->names().size(),
             format_bytes(bytes_of(*opened.tensors)));
}

}  // namespace

// For a run, verifies all checkpoints, even after a damaged one. A directory with COMPLETE is one
// checkpoint. With a single checkpoint in a run, its error is thrown as it is, which has more
// details than the summary.
void verify(const std::filesystem::path& path) {
  std::error_code unknown;
  const std::vector<CheckpointEntry> entries =
      std::filesystem::is_directory(path, unknown) &&
              !std::filesystem::exists(path / checkpoint::kCompleteFile, unknown)
          ? list_checkpoints(find_root(path))
          : std::vector<CheckpointEntry>();
  if (entries.size() < 2) {
    verify_one(path);
    return;
  }
  size_t damaged = 0;
  for (const CheckpointEntry& entry : entries) {
    try {
      verify_one(entry.directory);
    } catch (const Error& error) {
      ++damaged;
      fmt::print("{}\n", error.what());
    }
  }
  if (damaged > 0) {
    throw Error(
        ExitCode::Io,
        fmt::format(
            "{} of {} checkpoints in {} are damaged", damaged, entries.size(), path.string()));
  }
}

// The link "best" is relative and names the directory of the checkpoint. Checkpoints that are kept
// for their age (--keep-for) are not known here and can be deleted.
// A training that runs meanwhile only adds checkpoints that are newer than the list, which are
// never deleted here.
void prune(const PruneOptions& options) {
  const std::filesystem::path root = find_root(options.root);
  std::vector<CheckpointEntry> entries = list_checkpoints(root);
  if (entries.empty()) {
    throw no_checkpoint(options.root);
  }
  const auto keep = static_cast<size_t>(options.keep);
  if (entries.size() <= keep) {
    return;
  }
  // Throws if the newest checkpoint is damaged; nothing is deleted then.
  const CheckpointReader newest(entries.back().directory);
  entries.resize(entries.size() - keep);
  std::error_code no_link;
  const auto best = std::filesystem::read_symlink(root / checkpoint::kBestLink, no_link);
  std::erase_if(entries, [&](const CheckpointEntry& entry) {
    return entry.directory.filename() == best.filename();
  });
  for (const CheckpointEntry& entry : entries) {
    if (!options.dry_run) {
      checkpoint::discard(entry.directory);
    }
    fmt::print("{} {}\n", options.dry_run ? "would delete" : "deleted", entry.directory.string());
  }
}

}  // namespace lockstep::ckpt
