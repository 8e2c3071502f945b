// SPDX-License-Identifier: Apache-2.0
#include "training/data/bytes.h"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>
#include <zlib.h>

#include "common/base/check.h"
#include "common/base/text.h"
#include "common/os/mapped_file.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

// No supported data set is larger. Protects against damaged files and decompression bombs.
constexpr size_t kMaxUnpacked = size_t{1} << 30;

[[noreturn]] void refuse(const std::filesystem::path& path, size_t offset, std::string_view why) {
  throw Error(ExitCode::Io, fmt::format("cannot unpack {}: {}", path.string(), why))
      .fact("byte", std::to_string(offset), "in the compressed file")
      .hint("lockstep data fetch mnist");
}

bool begins_as_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

// Decompresses a file in memory with zlib.
class Unpacker {
 public:
  Unpacker(std::span<const uint8_t> packed, const std::filesystem::path& path)
      : packed_(packed), path_(path) {
    // Added to the window size, it selects the gzip format (inflateInit2() in zlib.h).
    constexpr int kGzipOnly = 16;
    LOCKSTEP_CHECK(inflateInit2(&stream_, kGzipOnly + MAX_WBITS) == Z_OK);
  }
  ~Unpacker() { inflateEnd(&stream_); }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  std::vector<uint8_t> unpack() {
    std::vector<uint8_t> unpacked(first_guess());
    size_t filled = 0;
    while (true) {
      filled += inflate_into(std::span(unpacked).subspan(filled));
      if (is_finished_) {
        unpacked.resize(filled);
        return unpacked;
      }
      if (filled == kMaxUnpacked) {
        refuse(path_,
               consumed_,
               fmt::format("it unpacks to more than {}", format_bytes(kMaxUnpacked)));
      }
      if (filled == unpacked.size()) {
        unpacked.resize(std::min(2 * filled, kMaxUnpacked));
      }
    }
  }

 private:
  // A gzip member (RFC 1952) ends with CRC32 and ISIZE, its unpacked size modulo 2^32, as 32-bit
  // little-endian numbers. It is only a guess: there can be several members, and the file can be
  // damaged. One more byte lets zlib reach the end in one call.
  size_t first_guess() const {
    constexpr size_t kSmall = size_t{1} << 16;
    constexpr size_t kBestRatio = 1032;  // maximum compression ratio of deflate
    if (packed_.size() < 4) {
      return kSmall;
    }
    size_t size = 0;
    for (size_t i = 1; i <= 4; ++i) {
      size = size << 8 | packed_[packed_.size() - i];
    }
    return std::min({size, packed_.size() * kBestRatio, kMaxUnpacked - 1}) + 1;
  }

  // Returns the number of bytes written to `room`.
  size_t inflate_into(std::span<uint8_t> room) {
    constexpr size_t kMaxAtOnce = size_t{1} << 30;  // zlib has 32-bit sizes
    const size_t offered = std::min(packed_.size() - consumed_, kMaxAtOnce);
    stream_.next_in = const_cast<uint8_t*>(packed_.data() + consumed_);
    stream_.avail_in = static_cast<uInt>(offered);
    stream_.next_out = room.data();
    stream_.avail_out = static_cast<uInt>(room.size());
    const int status = inflate(&stream_, Z_NO_FLUSH);
    consumed_ += offered - stream_.avail_in;
    if (status == Z_STREAM_END) {
      end_member();
    } else if (status == Z_BUF_ERROR && consumed_ == packed_.size() && stream_.avail_out > 0) {
      refuse(path_, consumed_, "it ends too early");
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      refuse(path_, consumed_, stream_.msg != nullptr ? stream_.msg : "zlib failed");
    }
    return room.size() - stream_.avail_out;
  }

  // A gzip file can have several members, one after the other.
  void end_member() {
    const auto rest = packed_.subspan(consumed_);
    if (rest.empty()) {
      is_finished_ = true;
    } else if (begins_as_gzip(rest)) {
      LOCKSTEP_CHECK(inflateReset(&stream_) == Z_OK);
    } else {
      refuse(path_, consumed_, "there is other data after the compressed data");
    }
  }

  std::span<const uint8_t> packed_;
  const std::filesystem::path& path_;
  z_stream stream_ = {};
  size_t consumed_ = 0;
  bool is_finished_ = false;
};

}  // namespace

Bytes own_bytes(std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
  return {owner, *owner};
}

Bytes map_content(const std::filesystem::path& path) {
  auto file = std::make_shared<const os::MappedFile>(path);
  return {file, file->bytes()};
}

FileContent read_content(const std::filesystem::path& path) {
  auto file = std::make_shared<const os::MappedFile>(path);
  if (begins_as_gzip(file->bytes())) {
    return {own_bytes(Unpacker(file->bytes(), path).unpack()), true};
  }
  return {{file, file->bytes()}, false};
}

}  // namespace lockstep::data
