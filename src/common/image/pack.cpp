// SPDX-License-Identifier: Apache-2.0
#include "common/image/pack.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/image/crc32.h"
#include "common/image/layout.h"
#include "common/image/pack_format.h"
#include "common/os/mapped_file.h"
#include "lockstep/error.h"

namespace lockstep::image {
namespace {

namespace fs = std::filesystem;

// The file is mapped, not read: the pages are shared by all workers of a node, and read() copies
// nothing. Everything that could lead outside the file is checked by the constructor, so that the
// accessors need no checks. image/pack_format.h draws the layout.
class PackStore : public Store {
 public:
  explicit PackStore(fs::path file) : file_(std::move(file)), map_(file_) {
    read_ends();
    read_json();
    check_entries();
  }

  int64_t size() const override { return static_cast<int64_t>(end_.entries); }
  int64_t label(int64_t index) const override { return entry(index).label; }
  std::string name(int64_t index) const override {
    return fmt::format("{}:{}", file_.string(), names_ + entry(index).name);
  }
  std::span<const std::byte> read(int64_t index,
                                  std::vector<std::byte>& /*buffer*/) const override {
    const PackEntry found = entry(index);
    return bytes(found.offset, found.bytes);
  }
  const std::vector<ClassName>& classes() const override { return classes_; }
  std::string source() const override { return source_; }
  std::optional<uint32_t> crc(int64_t index) const override { return entry(index).crc; }

 private:
  std::span<const std::byte> bytes(uint64_t offset, uint64_t count) const {
    return std::as_bytes(map_.bytes()).subspan(offset, count);
  }

  // memcpy instead of a cast: the end record follows the names, whose length is arbitrary, so that
  // it is not aligned.
  template <typename Part>
  Part part(uint64_t offset) const {
    Part result;
    std::memcpy(&result, map_.bytes().data() + offset, sizeof(Part));
    return result;
  }

  PackEntry entry(int64_t index) const {
    return part<PackEntry>(end_.entries_offset + static_cast<uint64_t>(index) * sizeof(PackEntry));
  }

  Error refusal(std::string_view reason, uint64_t at) const {
    return Error(ExitCode::Io, fmt::format("cannot read {}: {}", file_.string(), reason))
        .fact("byte", std::to_string(at));
  }

  void read_ends();
  void read_json();
  void check_entries() const;

  fs::path file_;
  os::MappedFile map_;
  PackEnd end_;
  const char* names_ = nullptr;
  std::vector<ClassName> classes_;
  std::string source_;
};

// Checks from the outside to the inside: magic and version at the beginning, the end record, the
// order of the parts, and the CRC of the tables. Only then are offsets from the file used.
void PackStore::read_ends() {
  const uint64_t size = map_.bytes().size();
  const PackHead head = size < sizeof(PackHead) ? PackHead{.magic = {}} : part<PackHead>(0);
  if (head.magic != kPackMagic) {
    throw refusal("it is not a pack of images", 0).hint("lockstep data pack, to create a pack");
  }
  if (head.version != kPackVersion) {
    throw refusal("unsupported version", offsetof(PackHead, version))
        .fact("found", std::to_string(head.version))
        .fact("expected", std::to_string(kPackVersion));
  }
  const uint64_t last = size - std::min<uint64_t>(size, sizeof(PackEnd));
  if (last >= sizeof(PackHead)) {
    end_ = part<PackEnd>(last);
  }
  if (last < sizeof(PackHead) || end_.magic != kPackEndMagic) {
    throw refusal("it ends too early: the table of images is missing", size)
        .hint("copy it again, or recreate it with lockstep data pack");
  }
  // Each value is compared with the file size first, so that the sums cannot overflow.
  const bool is_in_order =
      end_.json_offset >= sizeof(PackHead) && end_.json_offset <= last &&
      end_.json_bytes <= last - end_.json_offset &&
      end_.entries_offset >= end_.json_offset + end_.json_bytes && end_.entries_offset <= last &&
      end_.entries <= (last - end_.entries_offset) / sizeof(PackEntry) &&
      end_.names_offset == end_.entries_offset + end_.entries * sizeof(PackEntry) &&
      end_.names_bytes == last - end_.names_offset && end_.version == kPackVersion;
  if (!is_in_order) {
    throw refusal("its trailer is damaged", last);
  }
  const uint32_t found = crc32(bytes(end_.json_offset, last - end_.json_offset));
  if (found != end_.crc) {
    throw refusal("its table of images is damaged", end_.json_offset)
        .fact("CRC-32", fmt::format("{:08x}", found))
        .fact("expected", fmt::format("{:08x}", end_.crc));
  }
  names_ = reinterpret_cast<const char*>(map_.bytes().data()) + end_.names_offset;
}

void PackStore::read_json() {
  const std::string_view text(reinterpret_cast<const char*>(map_.bytes().data()) + end_.json_offset,
                              end_.json_bytes);
  try {
    const auto json = nlohmann::json::parse(text);
    source_ = json.value("source", "");
    for (const auto& each : json.at("classes")) {
      classes_.push_back({.id = each.at("id"), .words = each.at("words")});
    }
  } catch (const nlohmann::json::exception& wrong) {
    throw refusal("its JSON description is invalid", end_.json_offset).fact("reason", wrong.what());
  }
}

// The final zero byte guarantees that a name read as a C string ends within the file.
void PackStore::check_entries() const {
  const bool has_last_zero = end_.names_bytes > 0 && names_[end_.names_bytes - 1] == '\0';
  for (uint64_t i = 0; i < end_.entries; ++i) {
    const uint64_t at = end_.entries_offset + i * sizeof(PackEntry);
    const auto entry = part<PackEntry>(at);
    if (entry.offset > end_.json_offset || entry.bytes > end_.json_offset - entry.offset ||
        entry.label >= classes_.size() || entry.name >= end_.names_bytes || !has_last_zero) {
      throw refusal(fmt::format("the entry of image {} is invalid", i), at);
    }
  }
}

std::vector<std::string> ids_of(const Store& store) {
  std::vector<std::string> ids;
  for (const ClassName& each : store.classes()) {
    ids.push_back(each.id);
  }
  return ids;
}

}  // namespace

StorePtr open_pack(const fs::path& file) {
  return std::make_shared<const PackStore>(file);
}

std::optional<Sets> find_packs(const fs::path& directory, const std::string& word) {
  for (const std::string& prefix : {std::string(), word + "-"}) {
    const fs::path train = directory / (prefix + "train.lspack");
    const fs::path val = directory / (prefix + "val.lspack");
    if (!has_file(train) || !has_file(val)) {
      continue;
    }
    Sets sets{.train = open_pack(train), .test = open_pack(val), .origin = {}, .source = {}};
    if (ids_of(*sets.train) != ids_of(*sets.test)) {
      throw Error(ExitCode::Io, "cannot use these packs: their classes differ")
          .fact("train", train.string(), fmt::format("{} classes", sets.train->classes().size()))
          .fact("val", val.string(), fmt::format("{} classes", sets.test->classes().size()));
    }
    sets.source = sets.train->source();
    sets.origin = fmt::format("{} and {}", train.string(), val.filename().string());
    return sets;
  }
  return std::nullopt;
}

}  // namespace lockstep::image
