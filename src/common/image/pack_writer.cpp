// SPDX-License-Identifier: Apache-2.0
#include "common/image/pack_writer.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/image/crc32.h"
#include "common/image/in_order.h"
#include "common/image/jpeg_encoder.h"
#include "common/image/pack_format.h"
#include "common/image/renderer.h"
#include "common/os/files.h"
#include "common/os/output_file.h"
#include "common/os/peer_watch.h"
#include "lockstep/error.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;

// The bytes of an image for the pack.
struct Packed {
  std::vector<std::byte> bytes;
  bool is_shrunk = false;
  std::string problem;
};

// The decoder, encoder and buffers of one thread.
class Shrinker {
 public:
  Shrinker(int short_side, int quality) : short_side_(short_side), quality_(quality) {}

  Packed pack(const Store& store, int64_t index) {
    const std::span<const std::byte> file = store.read(index, buffer_);
    Packed packed;
    if (short_side_ > 0) {
      try {
        shrink(file, packed);
      } catch (const Corrupt& corrupt) {
        packed.problem = corrupt.what();
      }
    }
    if (!packed.is_shrunk) {
      packed.bytes.assign(file.begin(), file.end());
    }
    return packed;
  }

 private:
  void shrink(std::span<const std::byte> file, Packed& packed) {
    const Size size = renderer_.open(file);
    const int shorter = std::min(size.width, size.height);
    if (shorter <= short_side_) {
      return;
    }
    const auto scaled = [&](int pixels) {
      return static_cast<int>(std::lround(static_cast<double>(pixels) * short_side_ / shorter));
    };
    const Size smaller = {.width = scaled(size.width), .height = scaled(size.height)};
    const Box whole = {.right = static_cast<double>(size.width),
                       .bottom = static_cast<double>(size.height)};
    pixels_.resize(static_cast<size_t>(smaller.width) * static_cast<size_t>(smaller.height) * 3);
    renderer_.render({.box = whole, .limits = whole}, smaller, pixels_.data());
    const std::span<const std::byte> made = encoder_.encode(pixels_.data(), smaller, quality_);
    packed.bytes.assign(made.begin(), made.end());
    packed.is_shrunk = true;
  }

  int short_side_;
  int quality_;
  Renderer renderer_{Damage::Refused};
  JpegEncoder encoder_;
  std::vector<std::byte> buffer_;
  std::vector<uint8_t> pixels_;
};

template <typename Part>
std::string_view text_of(const Part& part) {
  return {reinterpret_cast<const char*>(&part), sizeof(Part)};
}

// Writes the parts of a pack in order. Images are written as they arrive; the table is kept in
// memory (24 bytes and a name per image) and written at the end, together with a CRC of everything
// after the images. Images have their own CRCs.
class PackFile {
 public:
  explicit PackFile(const fs::path& path) : file_(path) { file_.write(text_of(PackHead{})); }

  void add(const std::vector<std::byte>& bytes, int64_t label, std::string_view name) {
    if (bytes.size() > std::numeric_limits<uint32_t>::max()) {
      throw Error(ExitCode::Io, fmt::format("cannot pack {}: it is 4 GiB or larger", name));
    }
    align();
    entries_.push_back({.offset = file_.size(),
                        .bytes = static_cast<uint32_t>(bytes.size()),
                        .label = static_cast<uint32_t>(label),
                        .name = static_cast<uint32_t>(names_.size()),
                        .crc = crc32(bytes)});
    file_.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    names_.append(name).push_back('\0');
  }

  uint64_t finish(const std::string& json) {
    align();
    PackEnd end = {.json_offset = file_.size(), .json_bytes = json.size()};
    write_checked(json);
    write_checked(std::string(padding(), '\0'));
    end.entries_offset = file_.size();
    end.entries = entries_.size();
    write_checked(
        {reinterpret_cast<const char*>(entries_.data()), entries_.size() * sizeof(PackEntry)});
    end.names_offset = file_.size();
    end.names_bytes = names_.size();
    write_checked(names_);
    end.crc = crc_;
    file_.write(text_of(end));
    file_.close();
    return file_.size();
  }

 private:
  uint64_t padding() const {
    return (kPackAlignment - file_.size() % kPackAlignment) % kPackAlignment;
  }
  void align() { file_.write(std::string(padding(), '\0')); }

  void write_checked(std::string_view text) {
    crc_ = crc32(std::as_bytes(std::span(text.data(), text.size())), crc_);
    file_.write(text);
  }

  os::OutputFile file_;
  std::vector<PackEntry> entries_;
  std::string names_;
  uint32_t crc_ = 0;
};

// CLASS/FILE, from the last two components of a path; an "images" folder is skipped.
std::string short_name(const std::string& name) {
  const fs::path path(name);
  fs::path folder = path.parent_path();
  if (folder.filename() == "images") {
    folder = folder.parent_path();
  }
  return (folder.filename() / path.filename()).string();
}

std::string describe(const Store& store, const std::string& split, const PackOptions& options) {
  nlohmann::ordered_json json = {{"split", split}, {"images", store.size()}};
  if (!options.source.empty()) {
    json["source"] = options.source;
  }
  if (options.short_side > 0) {
    json["short_side"] = options.short_side;
    json["quality"] = options.quality;
  }
  for (const ClassName& each : store.classes()) {
    json["classes"].push_back({{"id", each.id}, {"words", each.words}});
  }
  // Descriptions are not always valid UTF-8.
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A temporary file; removed by the destructor unless it was renamed.
struct Draft {
  fs::path path;
  ~Draft() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

}  // namespace

// The pack is written under a temporary name, synced by finish(), renamed, and its directory
// synced: a crash never leaves an incomplete file under the final name.
PackReport write_pack(const Store& store,
                      const std::string& split,
                      const fs::path& file,
                      const PackOptions& options) {
  os::make_directories(file.parent_path().empty() ? fs::path(".") : file.parent_path());
  const Draft draft{file.string() + fmt::format(".{}.part", os::process_id())};
  PackFile pack(draft.path);
  PackReport report;
  std::vector<std::unique_ptr<Shrinker>> tools;
  tools.reserve(static_cast<size_t>(options.threads));
  for (int i = 0; i < options.threads; ++i) {
    tools.push_back(std::make_unique<Shrinker>(options.short_side, options.quality));
  }
  InOrder<Packed> images(store.size(), options.threads, [&](int64_t index, int thread) {
    return tools[static_cast<size_t>(thread)]->pack(store, index);
  });
  for (int64_t i = 0; i < store.size(); ++i) {
    const Packed packed = images.next();
    pack.add(packed.bytes, store.label(i), short_name(store.name(i)));
    report.shrunk += packed.is_shrunk ? 1 : 0;
    if (!packed.problem.empty()) {
      report.problems.push_back({.name = store.name(i), .reason = packed.problem});
    }
    options.progress(i + 1, store.size());
  }
  report.images = store.size();
  report.bytes = pack.finish(describe(store, split, options));
  os::rename_path(draft.path, file);
  os::sync_directory(file.parent_path().empty() ? fs::path(".") : file.parent_path());
  return report;
}

}  // namespace lockstep::image
