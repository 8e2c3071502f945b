// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <set>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/product.h"
#include "lockstep/error.h"

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;

// A safetensors file (github.com/huggingface/safetensors):
//
//   8 bytes    length N of the header, little-endian
//   N bytes    JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...,
//              "__metadata__": {"KEY": "TEXT"}}, padded with spaces
//   the rest   the tensors; data_offsets are relative to the end of the header
//
// The tensors must fill the rest exactly, without gaps and overlaps.
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // limit of the reference implementation
constexpr std::string_view kMetadata = "__metadata__";

Error unreadable(const os::InputFile& file, std::string_view why) {
  return Error(ExitCode::Io, fmt::format("cannot read {}: {}", file.path().string(), why));
}

Error bad_tensor(const os::InputFile& file, const std::string& name, std::string_view why) {
  return unreadable(file, fmt::format("tensor \"{}\" {}", name, why));
}

std::string read_header_text(const os::InputFile& file) {
  if (file.size() < kLengthBytes) {
    throw unreadable(file, "it is not a safetensors file: it has fewer than eight bytes");
  }
  std::array<unsigned char, kLengthBytes> little = {};
  file.read(0, little.data(), little.size());
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i > 0; --i) {
    length = length << 8U | little[i - 1];
  }
  // Both limits precede the allocation: the length comes from the file, which can be damaged.
  if (length > kMaxHeaderBytes) {
    throw unreadable(file, "it is not a safetensors file: its header would be too long")
        .fact("header", fmt::format("{} bytes", length), "first eight bytes")
        .fact("maximum", fmt::format("{} bytes", kMaxHeaderBytes), "the format");
  }
  if (length > file.size() - kLengthBytes) {
    throw unreadable(file, "it ends inside its header")
        .fact("header", fmt::format("{} bytes", length), "first eight bytes")
        .fact("file", fmt::format("{} bytes", file.size()));
  }
  std::string text(length, '\0');
  file.read(kLengthBytes, text.data(), text.size());
  if (text.empty() || text.front() != '{') {
    throw unreadable(file, "it is not a safetensors file: its header does not begin with '{'");
  }
  return text;
}

// JSON allows duplicate names; this format does not.
Json parse_once(const std::string& text, const os::InputFile& file) {
  std::vector<std::set<std::string>> names;
  const auto look = [&](int /*depth*/, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      names.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      names.pop_back();
    } else if (event == Json::parse_event_t::key &&
               !names.back().insert(value.get<std::string>()).second) {
      throw bad_tensor(file, value.get<std::string>(), "appears twice in the header");
    }
    return true;
  };
  return Json::parse(text, look);
}

uint64_t bytes_of(const SafetensorsEntry& entry,
                  const std::string& name,
                  const os::InputFile& file) {
  const uint64_t width = width_of(entry.dtype);
  if (width == 0) {
    throw bad_tensor(file, name, fmt::format("has the unknown dtype \"{}\"", entry.dtype));
  }
  const auto bytes = find_product(entry.shape, static_cast<int64_t>(width));
  if (!bytes) {
    throw bad_tensor(file, name, "has an invalid shape");
  }
  return static_cast<uint64_t>(*bytes);
}

SafetensorsEntry parse_entry(const Json& json, const std::string& name, const os::InputFile& file) {
  SafetensorsEntry entry{.dtype = json.at("dtype").get<std::string>(),
                         .shape = json.at("shape").get<std::vector<int64_t>>()};
  const auto offsets = json.at("data_offsets").get<std::vector<uint64_t>>();
  if (offsets.size() != 2 || offsets[1] < offsets[0]) {
    throw bad_tensor(file, name, "has no begin and end in data_offsets");
  }
  entry.begin = offsets[0];
  entry.end = offsets[1];
  const uint64_t wanted = bytes_of(entry, name, file);
  if (entry.end - entry.begin != wanted) {
    throw bad_tensor(file, name, "has a size that does not match its shape")
        .fact("shape", fmt::format("{} bytes", wanted))
        .fact("data_offsets", fmt::format("{} bytes", entry.end - entry.begin));
  }
  return entry;
}

// The format forbids gaps and overlaps: one file could otherwise be read in two ways, or hide data.
void require_filled(const SafetensorsHeader& header, const os::InputFile& file) {
  std::vector<std::pair<const SafetensorsEntry*, const std::string*>> order;
  order.reserve(header.tensors.size());
  for (const auto& [name, entry] : header.tensors) {
    order.emplace_back(&entry, &name);
  }
  std::ranges::sort(
      order, {}, [](const auto& item) { return std::pair(item.first->begin, item.first->end); });
  uint64_t at = 0;
  for (const auto& [entry, name] : order) {
    if (entry->begin < at) {
      throw bad_tensor(file, *name, "overlaps another tensor")
          .fact("begins", fmt::format("byte {}", entry->begin))
          .fact("other ends", fmt::format("byte {}", at));
    }
    if (entry->begin > at) {
      throw bad_tensor(file, *name, "has a gap before it")
          .fact("begins", fmt::format("byte {}", entry->begin))
          .fact("other ends", fmt::format("byte {}", at));
    }
    at = entry->end;
  }
  const uint64_t held = file.size() - header.data_offset;
  if (at != held) {
    throw unreadable(file, at > held ? "it ends early" : "it has bytes after its last tensor")
        .fact("tensors", fmt::format("{} bytes", at), "header")
        .fact("found", fmt::format("{} bytes", held), "after the header");
  }
}

}  // namespace

uint64_t width_of(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, uint64_t>, 19> kWidths = {{
      {"BOOL", 1},    {"U8", 1},  {"I8", 1},    {"F8_E5M2", 1},     {"F8_E4M3", 1},
      {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2},   {"F16", 2},         {"BF16", 2},
      {"I32", 4},     {"U32", 4}, {"F32", 4},   {"I64", 8},         {"U64", 8},
      {"F64", 8},     {"C64", 8}, {"C128", 16}, {"F8_E4M3FNUZ", 1},
  }};
  const auto* const found =
      std::ranges::find(kWidths, dtype, &std::pair<std::string_view, uint64_t>::first);
  return found == kWidths.end() ? 0 : found->second;
}

std::string to_text(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) {
    json[std::string(kMetadata)] = header.metadata;
  }
  std::vector<std::pair<uint64_t, const std::string*>> order;
  order.reserve(header.tensors.size());
  for (const auto& [name, entry] : header.tensors) {
    order.emplace_back(entry.begin, &name);
  }
  std::ranges::stable_sort(order, {}, &std::pair<uint64_t, const std::string*>::first);
  for (const auto& [begin, name] : order) {
    const SafetensorsEntry& entry = header.tensors.at(*name);
    json[*name] = {
        {"dtype", entry.dtype}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  // Spaces up to a multiple of 8, so that the first tensor is aligned in a mapped file.
  std::string text = json.dump();
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  std::string length(kLengthBytes, '\0');
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(text.size() >> (8 * i) & 0xffU);
  }
  return length + text;
}

SafetensorsHeader read_safetensors_header(const os::InputFile& file) {
  const std::string text = read_header_text(file);
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + text.size();
  try {
    const Json json = parse_once(text, file);
    for (const auto& [name, value] : json.items()) {
      if (name == kMetadata) {
        header.metadata = value.get<std::map<std::string, std::string>>();
      } else {
        header.tensors[name] = parse_entry(value, name, file);
      }
    }
  } catch (const nlohmann::json::exception& fault) {
    throw unreadable(file, fmt::format("its header is malformed: {}", fault.what()));
  }
  require_filled(header, file);
  return header;
}

}  // namespace lockstep::checkpoint
