// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "os/files.h"

namespace lockstep::checkpoint {

// Throws Error (Io): cannot read `file`, what is wrong, at which byte.
[[noreturn]] void refuse_at(const std::filesystem::path& file, uint64_t byte, std::string_view why);

// A stretch of a file.
struct ZipRecord {
  uint64_t offset = 0;  // of the record's first byte in the file
  uint64_t bytes = 0;
  uint32_t crc32 = 0;
};

// The records of a zip archive as torch.save writes it: stored, not compressed. Every number in the
// file is checked against the file's size before it is used, so that no file can make a reader
// look, or ask for memory, beyond it.
class ZipArchive {
 public:
  explicit ZipArchive(const std::filesystem::path& file);

  const std::filesystem::path& path() const { return file_.path(); }
  const std::map<std::string, ZipRecord>& records() const { return records_; }

  // Copies a record's bytes and checks its CRC-32.
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
