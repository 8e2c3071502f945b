// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "common/os/files.h"

namespace lockstep::checkpoint {

// Throws Error (Io) with the file, the reason and the byte offset.
[[noreturn]] void refuse_at(const std::filesystem::path& file, uint64_t byte, std::string_view why);

// The position of a record in the file.
struct ZipRecord {
  uint64_t offset = 0;  // of the first byte of the record
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

// The records of a zip archive of torch.save: stored, not compressed. Every number from the file is
// checked against the size of the file before use. Therefore no file can cause a read beyond its
// end or an allocation larger than the file.
class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, ZipRecord>& records() const { return records_; }

  // Reads a record and verifies its CRC-32.
  void read(const ZipRecord& record, void* buffer) const;

 private:
  struct Directory {
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t entries = 0;
  };
  Directory find_directory() const;
  Directory find_directory64(uint64_t end_offset) const;
  void read_directory(const Directory& directory);
  size_t read_entry(std::string_view bytes, uint64_t offset);
  uint64_t data_offset(const std::string& name, uint64_t header_offset) const;

  os::InputFile file_;
  uint64_t directory_offset_ = 0;
  std::map<std::string, ZipRecord> records_;
};

}  // namespace lockstep::checkpoint
