// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <new>
#include <vector>
#include <xxhash.h>

#include <nlohmann/json.hpp>

#include "checkpoint/layout.h"
#include "os/files.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// Writes NaN and the infinities as null, for JSON has no word for them; null is read as NaN.
double number_or_nan(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// Parses, checks the format version, and gives what nlohmann has to say the name of the file.
template <typename Read>
auto read_json(std::string_view text, const std::filesystem::path& file, Read read) {
  try {
    const Json json = Json::parse(text);
    const int version = json.at("version").get<int>();
    if (version > kFormatVersion) {
      throw Error(ExitCode::Usage,
                  fmt::format("cannot read {}: it was written by a newer lockstep", file.string()))
          .fact("format", fmt::format("version {}", version), file.filename().string())
          .fact("known", fmt::format("up to version {}", kFormatVersion), "this program");
    }
    return read(json);
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Io, fmt::format("cannot read {}: {}", file.string(), fault.what()));
  }
}

uint64_t parse_checksum(const std::string& text, const std::filesystem::path& file) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  if (text.size() != 16 || std::from_chars(text.data(), end, value, 16).ptr != end) {
    throw Error(ExitCode::Io,
                fmt::format("cannot read {}: \"{}\" is no checksum", file.string(), text));
  }
  return value;
}

}  // namespace

uint64_t checksum(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

ManifestEntry measure(const std::filesystem::path& file) {
  const os::InputFile input(file);
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                       &XXH3_freeState);
  if (state == nullptr) {
    throw std::bad_alloc();
  }
  XXH3_64bits_reset(state.get());
  constexpr uint64_t kPiece = uint64_t{4} << 20;
  std::vector<char> piece(std::min(kPiece, input.size()));
  for (uint64_t at = 0; at < input.size(); at += piece.size()) {
    const uint64_t bytes = std::min<uint64_t>(piece.size(), input.size() - at);
    input.read(at, piece.data(), bytes);
    XXH3_64bits_update(state.get(), piece.data(), bytes);
  }
  return {.bytes = input.size(), .checksum = XXH3_64bits_digest(state.get())};
}

std::string to_json(const Manifest& manifest) {
  Json files = Json::object();
  for (const auto& [name, entry] : manifest) {
    files[name] = {{"bytes", entry.bytes}, {"xxh3_64", fmt::format("{:016x}", entry.checksum)}};
  }
  return Json{{"version", kFormatVersion}, {"files", files}}.dump(2) + "\n";
}

std::string to_json(const CheckpointState& state) {
  return Json{{"version", kFormatVersion},
              {"step", state.step},
              {"epoch", state.epoch},
              {"step_in_epoch", state.step_in_epoch},
              {"seed", state.seed},
              {"global_batch", state.global_batch},
              {"world_size", state.world_size},
              {"metrics", state.metrics},
              {"notes", state.notes}}
             .dump(2) +
         "\n";
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
            fmt::format("cannot read {}: \"{}\" is no plain file name", file.string(), name));
      }
      manifest[name] = {.bytes = entry.at("bytes").get<uint64_t>(),
                        .checksum = parse_checksum(entry.at("xxh3_64").get<std::string>(), file)};
    }
    return manifest;
  });
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
                             .notes = root.at("notes").get<std::map<std::string, std::string>>()};
    for (const auto& [name, value] : root.at("metrics").items()) {
      state.metrics[name] = number_or_nan(value);
    }
    return state;
  });
}

bool is_part_name(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return !name.empty() && name.front() != '.' && name.size() < 200 &&
         name.find_first_not_of(kPlain) == std::string_view::npos && name != kStateFile &&
         name != kManifestFile && name != kCompleteFile;
}

}  // namespace lockstep::checkpoint
