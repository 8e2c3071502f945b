// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>
#include <system_error>
#include <thread>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/os/files.h"
#include "training/checkpoint/layout.h"
#include "training/checkpoint/shard.h"

// How a checkpoint becomes complete. A checkpoint must be complete or absent after a crash of any
// process or of any machine, at any time. Workers exchange no messages here; they see each other
// only through files in the partial directory, which can be on a network file system.
//
//   every rank, write_shard()          rank 0, complete()
//   -------------------------          ------------------
//   1. write and fsync its shard
//   2. write and fsync its index,
//      rename it into place
//                                      3. wait for all indexes, check that the shards contain every
//                                         element exactly once
//                                      4. write and fsync state.json and manifest.json
//                                      5. remove the indexes
//                                      6. publish: fsync the directory, rename it to step-N, fsync
//                                         the root, then write COMPLETE (see Draft::publish)
//
// The order matters:
// - 1 before 2: an index promises that the bytes of its shard are on the disk. The index appears
//   atomically, so rank 0 never reads a part of one.
// - 2 before 3: rank 0 takes sizes and checksums from the indexes and does not read the shards
//   again. The checksums describe the bytes in the memory of the writer, so a fault of the disk or
//   of the network is found when the checkpoint is read.
// - 3 before 6: a checkpoint with a gap or an overlap is never published.
// - 6 is last: readers ignore a directory without COMPLETE, and COMPLETE contains the checksum of
//   manifest.json, which contains the checksums of all other files.
//
// A failure before the end of 6 throws. ~Draft then removes the directory. If rank 0 is killed, the
// next save removes it (remove_leftovers), because the lock on the directory is gone with the
// process. Each save has a new random token in the name of its partial directory: a slow writer of
// an abandoned save cannot write into the directory of a later one.
namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

Error failed(const ShardedSave& save, std::string_view why) {
  return Error(ExitCode::Io,
               fmt::format("cannot save checkpoint {}: {}", directory_name(save.state.step), why));
}

// A number that changes whenever a worker creates a file or adds bytes to one; the 1 per file makes
// an empty file count.
uint64_t bytes_in(const std::filesystem::path& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code gone;
    const uint64_t size = std::filesystem::file_size(at->path(), gone);
    bytes += gone ? 0 : size + 1;
  }
  return bytes;
}

// Waits for the index files of the other ranks by polling: inotify does not see changes that other
// machines make on a network file system. The timeout restarts with every new byte, so that it
// limits a lack of progress and not the time that a large shard takes on a slow disk.
class Waiting {
 public:
  Waiting(const ShardedSave& save, const Patience& patience) : save_(save), patience_(patience) {}

  Json index(int rank) {
    const std::filesystem::path file = save_.partial / index_name(rank, save_.writers);
    std::error_code unknown;
    while (!std::filesystem::exists(file, unknown)) {
      look(rank);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    const Json json = Json::parse(os::read_file(file));
    if (json.contains("failed")) {
      throw failed(save_, fmt::format("rank {} could not write its shard", rank))
          .fact("reason", json.at("failed").get<std::string>(), fmt::format("rank {}", rank));
    }
    return json;
  }

 private:
  // Throws if there is no point in waiting any longer. It lists the directory at most every 50 ms,
  // because on a network file system each listing costs a round trip per file.
  void look(int rank) {
    if (patience_.give_up) {
      throw failed(save_,
                   fmt::format("rank {} did not write its shard, and a worker has failed", rank));
    }
    const Clock::time_point now = Clock::now();
    if (now < next_look_) {
      return;
    }
    next_look_ = now + std::chrono::milliseconds(50);
    if (const uint64_t bytes = bytes_in(save_.partial); bytes != bytes_) {
      bytes_ = bytes;
      grown_ = now;
    }
    const std::chrono::duration<double> waited = now - grown_;
    if (waited > std::chrono::milliseconds(patience_.milliseconds)) {
      throw failed(save_, fmt::format("timed out waiting for the shard of rank {}", rank))
          .fact("waited", format_duration(waited.count()), "since the last write by any worker")
          .fact("directory", save_.partial.string());
    }
  }

  const ShardedSave& save_;
  const Patience& patience_;
  uint64_t bytes_ = 0;
  Clock::time_point grown_ = Clock::now();
  Clock::time_point next_look_ = grown_;
};

void add_to(TensorTable& tensors, const Json& piece, const ShardedSave& save, int rank) {
  const std::string name = piece.at("name").get<std::string>();
  const auto dtype = piece.at("dtype").get<std::string>();
  const auto shape = piece.at("shape").get<std::vector<int64_t>>();
  TensorEntry& entry = tensors[name];
  if (entry.dtype.empty()) {
    entry.dtype = dtype;
    entry.shape = shape;
  } else if (entry.dtype != dtype || entry.shape != shape) {
    throw failed(save, fmt::format("the ranks disagree on type or shape of tensor \"{}\"", name))
        .fact("rank", std::to_string(rank));
  }
  entry.stretches.push_back({.shard = rank,
                             .offset = piece.at("offset").get<int64_t>(),
                             .count = piece.at("count").get<int64_t>()});
}

}  // namespace

std::filesystem::path complete(const ShardedSave& save, Draft& draft, const Patience& patience) {
  Manifest files;
  TensorTable tensors;
  Waiting waiting(save, patience);
  for (int rank = 0; rank < save.writers; ++rank) {
    const Json index = waiting.index(rank);
    files[shard_name(rank, save.writers)] = {
        .bytes = index.at("bytes").get<uint64_t>(),
        .checksum = parse_checksum(index.at("xxh3_64").get<std::string>(), save.partial)};
    for (const Json& piece : index.at("pieces")) {
      add_to(tensors, piece, save, rank);
    }
  }
  for (auto& [name, entry] : tensors) {
    // By offset, as require_covered() expects; at equal offsets empty stretches first.
    std::ranges::sort(entry.stretches, {}, [](const Stretch& stretch) {
      return std::pair(stretch.offset, stretch.count);
    });
  }
  require_covered(tensors, "the pieces of " + directory_name(save.state.step));
  const std::string state = to_json(save.state, kFormatVersion);
  draft.write(kStateFile, state);
  files[std::string(kStateFile)] = {.bytes = state.size(), .checksum = checksum(state)};
  const std::string text = to_json(files, tensors);
  draft.write(kManifestFile, text);
  // The manifest now contains everything from the indexes.
  for (int rank = 0; rank < save.writers; ++rank) {
    os::remove_tree(save.partial / index_name(rank, save.writers));
  }
  draft.publish(complete_text(text));
  return save.root / directory_name(save.state.step);
}

}  // namespace lockstep::checkpoint
