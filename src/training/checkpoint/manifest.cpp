// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <vector>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "common/base/product.h"
#include "common/os/files.h"
#include "training/checkpoint/layout.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// The text files of a checkpoint, version 2:
//
//   COMPLETE        xxh3_64 <checksum of manifest.json> manifest.json
//   manifest.json   {"version": 2,
//                    "files": {"shard-00000-of-00002.safetensors": {"bytes": .., "xxh3_64": ".."},
//                              "state.json": {..}},
//                    "tensors": {"model.w": {"dtype": "F32", "shape": [4, 8],
//                                            "pieces": [[SHARD, OFFSET, COUNT], ..]}, ..}}
//   state.json      position in the training, metrics, notes and options of the optimizer
//
// Each file vouches for the next: COMPLETE for the manifest, the manifest for all other files. A
// change of any byte is therefore found by reading, without trust in the file system.

// JSON cannot represent NaN and infinities. They are written as null, and null is read as NaN.
double number_or_nan(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// Parses the text, checks its version (older ones are still read), and turns exceptions of nlohmann
// into Errors with the file.
template <typename Read>
auto read_json(std::string_view text, const std::filesystem::path& file, Read read) {
  try {
    const Json json = Json::parse(text);
    const int version = json.at("version").get<int>();
    if (version > kFormatVersion) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot read {}: it was written by a newer version of lockstep",
                              file.string()))
          .fact("found", fmt::format("version {}", version), file.filename().string())
          .fact("expected", fmt::format("up to version {}", kFormatVersion), "this program");
    }
    return read(json);
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, fmt::format("cannot read {}: {}", file.string(), fault.what()));
  }
}

}  // namespace

uint64_t parse_checksum(const std::string& text, const std::filesystem::path& file) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  if (text.size() != 16 || std::from_chars(text.data(), end, value, 16).ptr != end) {
    throw Error(ExitCode::Io,
                fmt::format("cannot read {}: \"{}\" is not a checksum", file.string(), text));
  }
  return value;
}

struct RunningChecksum::State {
  XXH3_state_t xxh3;
};

RunningChecksum::RunningChecksum() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh3);
}

RunningChecksum::~RunningChecksum() = default;

void RunningChecksum::add(const void* bytes, size_t count) {
  XXH3_64bits_update(&state_->xxh3, bytes, count);
}

uint64_t RunningChecksum::value() const {
  return XXH3_64bits_digest(&state_->xxh3);
}

std::string to_text(uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

// Readers have checked the shape: parse_tensors() and read_safetensors_header().
int64_t TensorEntry::elements() const {
  return find_product(shape).value();
}

uint64_t checksum(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

ManifestEntry measure(const std::filesystem::path& file) {
  const os::InputFile input(file);
  RunningChecksum sum;
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  std::vector<char> piece(std::min(kPiece, input.size()));
  for (uint64_t at = 0; at < input.size(); at += piece.size()) {
    const uint64_t bytes = std::min<uint64_t>(piece.size(), input.size() - at);
    input.read(at, piece.data(), bytes);
    sum.add(piece.data(), bytes);
  }
  return {.bytes = input.size(), .checksum = sum.value()};
}

namespace {

Json files_json(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, entry] : manifest) {
    files[name] = {{"bytes", entry.bytes}, {"xxh3_64", to_text(entry.checksum)}};
  }
  return files;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
  return Json{{"version", kPartsVersion}, {"files", files_json(manifest)}}.dump(2) + "\n";
}

// Written by hand to get one line per tensor: a model can have thousands of them.
std::string to_json(const Manifest& manifest, const TensorTable& tensors) {
  std::string text = fmt::format("{{\n\"version\": {},\n\"files\": {},\n\"tensors\": {{",
                                 kFormatVersion,
                                 files_json(manifest).dump(2));
  const char* comma = "\n";
  for (const auto& [name, entry] : tensors) {
    Json pieces = Json::array();
    for (const Stretch& stretch : entry.stretches) {
      pieces.push_back({stretch.shard, stretch.offset, stretch.count});
    }
    const Json value{{"dtype", entry.dtype}, {"shape", entry.shape}, {"pieces", pieces}};
    text += fmt::format("{}{}: {}", comma, Json(name).dump(), value.dump());
    comma = ",\n";
  }
  return text + "\n}\n}\n";
}

std::string to_json(const CheckpointState& state, int version) {
  Json json{{"version", version},
            {"step", state.step},
            {"epoch", state.epoch},
            {"step_in_epoch", state.step_in_epoch},
            {"seed", state.seed},
            {"global_batch", state.global_batch},
            {"world_size", state.world_size},
            {"metrics", state.metrics},
            {"notes", state.notes}};
  if (!state.optimizer.empty()) {
    json["optimizer"] = Json::parse(state.optimizer);
  }
  return json.dump(2) + "\n";
}

std::string complete_text(std::string_view manifest_json) {
  return fmt::format("xxh3_64 {:016x} {}\n", checksum(manifest_json), kManifestFile);
}

Manifest parse_manifest(std::string_view json, const std::filesystem::path& file) {
  return read_json(json, file, [&](const Json& root) {
    Manifest manifest;
    for (const auto& [name, entry] : root.at("files").items()) {
      if (!is_part_name(name) && name != kStateFile) {
        throw Error(
            ExitCode::Io,
            fmt::format("cannot read {}: \"{}\" is not a plain file name", file.string(), name));
      }
      manifest[name] = {.bytes = entry.at("bytes").get<uint64_t>(),
                        .checksum = parse_checksum(entry.at("xxh3_64").get<std::string>(), file)};
    }
    return manifest;
  });
}

TensorTable parse_tensors(std::string_view json, const std::filesystem::path& file) {
  return read_json(json, file, [&file](const Json& root) {
    TensorTable tensors;
    if (!root.contains("tensors")) {
      return tensors;
    }
    for (const auto& [name, value] : root.at("tensors").items()) {
      TensorEntry entry{.dtype = value.at("dtype").get<std::string>(),
                        .shape = value.at("shape").get<std::vector<int64_t>>(),
                        .stretches = {}};
      if (!find_product(entry.shape)) {
        throw Error(
            ExitCode::Io,
            fmt::format("cannot read {}: tensor \"{}\" has an invalid shape", file.string(), name))
            .fact("shape", fmt::format("[{}]", fmt::join(entry.shape, ", ")));
      }
      for (const Json& piece : value.at("pieces")) {
        entry.stretches.push_back({.shard = piece.at(0).get<int>(),
                                   .offset = piece.at(1).get<int64_t>(),
                                   .count = piece.at(2).get<int64_t>()});
      }
      tensors[name] = std::move(entry);
    }
    return tensors;
  });
}

// One pass over the stretches, which are ordered by offset: `at` is the number of elements that
// they have covered without gap so far. A stretch that begins behind `at` leaves a gap, one that
// begins before it overlaps.
void require_covered(const TensorTable& tensors, std::string_view source) {
  for (const auto& [name, entry] : tensors) {
    const auto refuse = [&, &tensor = name](std::string_view why) {
      return Error(ExitCode::Io,
                   fmt::format("cannot use {}: tensor \"{}\" {}", source, tensor, why));
    };
    int64_t at = 0;
    for (const Stretch& stretch : entry.stretches) {
      if (stretch.count < 0) {
        throw refuse("has a piece of negative size");
      }
      if (stretch.offset > at) {
        break;
      }
      if (stretch.offset < at && stretch.count > 0) {
        throw refuse(fmt::format("contains element {} twice", stretch.offset))
            .fact("second", fmt::format("shard {}", stretch.shard), std::string(kManifestFile));
      }
      if (__builtin_add_overflow(at, stretch.count, &at)) {
        throw refuse("has a piece that is too large");
      }
    }
    if (at < entry.elements()) {
      throw refuse(fmt::format("lacks element {}", at))
          .fact("shape", fmt::format("[{}]", fmt::join(entry.shape, ", ")))
          .fact("elements", fmt::to_string(entry.elements()));
    }
    if (at > entry.elements()) {
      throw refuse(fmt::format("has more than {} elements", entry.elements()));
    }
  }
}

CheckpointState parse_state(std::string_view json, const std::filesystem::path& file) {
  return read_json(json, file, [](const Json& root) {
    CheckpointState state = {.step = root.at("step").get<int64_t>(),
                             .epoch = root.at("epoch").get<int64_t>(),
                             .step_in_epoch = root.at("step_in_epoch").get<int64_t>(),
                             .seed = root.at("seed").get<uint64_t>(),
                             .global_batch = root.at("global_batch").get<int64_t>(),
                             .world_size = root.at("world_size").get<int>(),
                             .metrics = {},
                             .notes = root.at("notes").get<std::map<std::string, std::string>>(),
                             .optimizer = {}};
    for (const auto& [name, value] : root.at("metrics").items()) {
      state.metrics[name] = number_or_nan(value);
    }
    if (root.contains("optimizer")) {
      state.optimizer = root.at("optimizer").dump();
    }
    return state;
  });
}

// Names come from files of unknown origin and are appended to a directory: "../x" must not pass.
bool is_part_name(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.front() != '.' && name.size() < 200 &&
         name.find_first_not_of(kPlain) == std::string_view::npos && name != kStateFile &&
         name != kManifestFile && name != kCompleteFile;
}

}  // namespace lockstep::checkpoint
