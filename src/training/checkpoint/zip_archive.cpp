// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/zip_archive.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <limits>
#include <zlib.h>

#include "common/base/text.h"
#include "lockstep/error.h"

// Signatures and offsets from the PKWARE APPNOTE, sections 4.3.7 to 4.3.16. A zip file is read from
// its end:
//
//   | local header, name, extra, data | ...                     one per record
//   | entry, name, extra, comment | ...                         central directory, one per record
//   | zip64 end | zip64 end locator |                           only if a value exceeds its field
//   | end, comment |                                            22 bytes and up to 65535 of comment
//
// An entry has size, CRC-32 and the offset of its local header. The data begins behind the local
// header, whose extra field has another length than that of the entry: torch.save pads it to align
// the data.
namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kLocalHeader = "PK\x03\x04";
constexpr std::string_view kEntry = "PK\x01\x02";
constexpr std::string_view kEnd64 = "PK\x06\x06";
constexpr std::string_view kEnd64Locator = "PK\x06\x07";
constexpr std::string_view kEnd = "PK\x05\x06";
constexpr size_t kLocalHeaderBytes = 30;
constexpr size_t kEntryBytes = 46;
constexpr size_t kEnd64Bytes = 56;
constexpr size_t kEnd64LocatorBytes = 20;
constexpr size_t kEndBytes = 22;
constexpr size_t kMaxCommentBytes = 65535;
constexpr uint64_t kMaxDirectoryBytes = uint64_t{256} << 20;
constexpr uint64_t kIn64Bits = 0xffffffff;  // the value is in the zip64 field of the entry

constexpr std::string_view kCutShort =
    "it ends early: there is no zip directory (truncated while it was copied or written?)";

uint64_t number(std::string_view bytes, size_t at, size_t width) {
  uint64_t value = 0;
  for (size_t i = 0; i < width; ++i) {
    value |= uint64_t{static_cast<unsigned char>(bytes.at(at + i))} << (8 * i);
  }
  return value;
}

// Before version 1.6, PyTorch wrote a pickle with a magic number, followed by more pickles.
bool is_legacy(std::string_view head) {
  return head.size() >= 4 && head[0] == '\x80' && head.substr(2, 2) == "\x8a\x0a";
}

// Reads the values that exceed 32 bits from the zip64 extra field (id 1) of an entry. The field
// contains only those values whose 32-bit field is 0xffffffff, in the order of the members.
struct Sizes {
  uint64_t plain = 0;
  uint64_t stored = 0;
  uint64_t header_offset = 0;

  bool complete_from(std::string_view extra) {
    while (extra.size() >= 4) {
      const uint64_t id = number(extra, 0, 2);
      const uint64_t bytes = number(extra, 2, 2);
      extra.remove_prefix(4);
      if (bytes > extra.size()) {
        return false;
      }
      if (id == 1) {
        return take(extra.substr(0, bytes));
      }
      extra.remove_prefix(bytes);
    }
    return plain != kIn64Bits && stored != kIn64Bits && header_offset != kIn64Bits;
  }

 private:
  bool take(std::string_view field) {
    for (uint64_t* value : {&plain, &stored, &header_offset}) {
      if (*value != kIn64Bits) {
        continue;
      }
      if (field.size() < 8) {
        return false;
      }
      *value = number(field, 0, 8);
      field.remove_prefix(8);
    }
    return true;
  }
};

}  // namespace

void refuse_at(const std::filesystem::path& file, uint64_t byte, std::string_view why) {
  throw Error(ExitCode::Io, fmt::format("cannot read {}: {}", file.string(), why))
      .fact("byte", std::to_string(byte));
}

ZipArchive::ZipArchive(const std::filesystem::path& file) : file_(file) {
  std::string head(std::min<uint64_t>(file_.size(), 4), '\0');
  file_.read(0, head.data(), head.size());
  if (is_legacy(head)) {
    throw Error(ExitCode::Io,
                fmt::format("cannot read {}: it has the format of torch.save before PyTorch 1.6",
                            file.string()))
        .hint(fmt::format("python3 -c 'import sys, torch; f = sys.argv[1]; "
                          "torch.save(torch.load(f, weights_only=True), f + \".new\")' {}",
                          quote_for_shell(file.string())));
  }
  if (head != kLocalHeader.substr(0, head.size())) {
    refuse_at(path(), 0, "it is not a file of torch.save (no zip archive)");
  }
  read_directory(find_directory());
}

// Offsets in the end record (4.3.16): 10 number of entries, 12 size and 16 offset of the central
// directory, 20 length of the comment. In the zip64 end record (4.3.14) they are 32, 40 and 48; its
// locator (4.3.15) has the offset of this record at 8. All numbers are little-endian.
ZipArchive::Directory ZipArchive::find_directory() const {
  const uint64_t tail_bytes = std::min<uint64_t>(file_.size(), kEndBytes + kMaxCommentBytes);
  // The end record is the last thing in the file, but its comment may contain the same signature.
  // It is the real one if its comment ends with the file.
  std::string tail(tail_bytes, '\0');
  file_.read(file_.size() - tail_bytes, tail.data(), tail.size());
  size_t at = tail.rfind(kEnd);
  while (at != std::string::npos && (tail.size() - at < kEndBytes ||
                                     number(tail, at + 20, 2) != tail.size() - at - kEndBytes)) {
    at = at == 0 ? std::string::npos : tail.rfind(kEnd, at - 1);
  }
  if (at == std::string::npos) {
    refuse_at(path(), file_.size(), kCutShort);
  }
  const uint64_t end_offset = file_.size() - tail_bytes + at;
  Directory directory = {.offset = number(tail, at + 16, 4),
                         .bytes = number(tail, at + 12, 4),
                         .entries = number(tail, at + 10, 2)};
  if (at >= kEnd64LocatorBytes &&
      tail.compare(at - kEnd64LocatorBytes, kEnd64Locator.size(), kEnd64Locator) == 0) {
    directory = find_directory64(end_offset);
  }
  if (directory.offset > end_offset || directory.bytes > end_offset - directory.offset ||
      directory.bytes > kMaxDirectoryBytes) {
    refuse_at(path(), end_offset, "its zip directory is outside the file");
  }
  return directory;
}

ZipArchive::Directory ZipArchive::find_directory64(uint64_t end_offset) const {
  const uint64_t locator_offset = end_offset - kEnd64LocatorBytes;
  std::string locator(kEnd64LocatorBytes, '\0');
  file_.read(locator_offset, locator.data(), locator.size());
  const uint64_t offset = number(locator, 8, 8);
  if (offset > locator_offset || locator_offset - offset < kEnd64Bytes) {
    refuse_at(path(), locator_offset, "its zip directory is outside the file");
  }
  std::string end(kEnd64Bytes, '\0');
  file_.read(offset, end.data(), end.size());
  if (!end.starts_with(kEnd64)) {
    refuse_at(path(), offset, "its zip directory does not begin where it should");
  }
  return {.offset = number(end, 48, 8), .bytes = number(end, 40, 8), .entries = number(end, 32, 8)};
}

void ZipArchive::read_directory(const Directory& directory) {
  directory_offset_ = directory.offset;
  std::string bytes(directory.bytes, '\0');
  file_.read(directory.offset, bytes.data(), bytes.size());
  size_t at = 0;
  for (uint64_t entry = 0; entry < directory.entries; ++entry) {
    at += read_entry(std::string_view(bytes).substr(at), directory.offset + at);
  }
  if (at != bytes.size()) {
    refuse_at(path(), directory.offset + at, "its zip directory has bytes after its last entry");
  }

  // Overlapping records could require far more memory than the size of the file.
  uint64_t total = 0;
  for (const auto& [name, record] : records_) {
    total += record.bytes;
    if (total > file_.size()) {
      refuse_at(path(), record.offset, "its records overlap");
    }
  }
}

// Offsets in an entry (4.3.12): 8 flags, 10 compression method (0: stored), 16 CRC-32, 20 stored
// size, 24 size, 28 length of the name, 30 of the extra field, 32 of the comment, 42 offset of the
// local header. Returns the length of the entry.
size_t ZipArchive::read_entry(std::string_view bytes, uint64_t offset) {
  if (bytes.size() < kEntryBytes || !bytes.starts_with(kEntry)) {
    refuse_at(path(), offset, "its zip directory is damaged");
  }
  const size_t name_bytes = number(bytes, 28, 2);
  const size_t extra_bytes = number(bytes, 30, 2);
  const size_t entry_bytes = kEntryBytes + name_bytes + extra_bytes + number(bytes, 32, 2);
  if (entry_bytes > bytes.size()) {
    refuse_at(path(), offset, "its zip directory is damaged");
  }
  const std::string name(bytes.substr(kEntryBytes, name_bytes));
  Sizes sizes = {.plain = number(bytes, 24, 4),
                 .stored = number(bytes, 20, 4),
                 .header_offset = number(bytes, 42, 4)};
  constexpr uint64_t kEncrypted = 1;
  if (!sizes.complete_from(bytes.substr(kEntryBytes + name_bytes, extra_bytes)) ||
      (number(bytes, 8, 2) & kEncrypted) != 0) {
    refuse_at(path(), offset, "its zip directory is damaged");
  }
  if (number(bytes, 10, 2) != 0 || sizes.plain != sizes.stored) {
    refuse_at(path(), offset, fmt::format("its record \"{}\" is compressed", name));
  }
  const uint64_t start = data_offset(name, sizes.header_offset);
  if (start > directory_offset_ || sizes.plain > directory_offset_ - start) {
    refuse_at(path(), offset, fmt::format("its record \"{}\" is outside the file", name));
  }
  const ZipRecord record = {
      .offset = start, .bytes = sizes.plain, .crc32 = static_cast<uint32_t>(number(bytes, 16, 4))};
  if (!records_.emplace(name, record).second) {
    refuse_at(path(), offset, fmt::format("it contains the record \"{}\" twice", name));
  }
  return entry_bytes;
}

// Offsets in a local header (4.3.7): 26 length of the name, 28 of the extra field.
uint64_t ZipArchive::data_offset(const std::string& name, uint64_t header_offset) const {
  const uint64_t header_bytes = kLocalHeaderBytes + name.size();
  if (header_offset > directory_offset_ || directory_offset_ - header_offset < header_bytes) {
    refuse_at(path(), header_offset, fmt::format("its record \"{}\" is outside the file", name));
  }
  std::string header(header_bytes, '\0');
  file_.read(header_offset, header.data(), header.size());
  if (!header.starts_with(kLocalHeader) || number(header, 26, 2) != name.size() ||
      header.substr(kLocalHeaderBytes) != name) {
    refuse_at(path(), header_offset, fmt::format("its record \"{}\" is damaged", name));
  }
  return header_offset + header_bytes + number(header, 28, 2);
}

void ZipArchive::read(const ZipRecord& record, void* buffer) const {
  file_.read(record.offset, buffer, record.bytes);
  const uLong found = ::crc32_z(0, static_cast<const Bytef*>(buffer), record.bytes);
  if (found != record.crc32) {
    throw Error(
        ExitCode::Io,
        fmt::format("cannot read {}: a record is damaged, its checksum is wrong", path().string()))
        .fact("bytes", fmt::format("{} to {}", record.offset, record.offset + record.bytes))
        .fact("expected", fmt::format("CRC-32 {:08x}", record.crc32), "zip directory")
        .fact("found", fmt::format("CRC-32 {:08x}", found));
  }
}

}  // namespace lockstep::checkpoint
