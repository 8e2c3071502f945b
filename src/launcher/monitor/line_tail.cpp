// SPDX-License-Identifier: Apache-2.0
#include "launcher/monitor/line_tail.h"

#include <algorithm>
#include <string>

// The writer (os::RotatingFile) renames from the oldest part to the newest and then creates a new
// file:
//
//   before            after a rotation
//   FILE    inode C   FILE    inode D   (created by the next append)
//   FILE.1  inode B   FILE.1  inode C
//   FILE.2  inode A   FILE.2  inode B
//                     FILE.3  inode A   (deleted if there are too many parts)
//
// identity_ and offset_ say how far the lines have been read: everything before byte offset_ of the
// file with that inode. A rotation changes names only, so the position stays valid, and the file is
// found again by its inode. Between the rename and the creation, FILE does not exist; read() then
// returns and keeps its position.
namespace lockstep::monitor {
namespace {

// A line of an event is some hundred bytes. A longer line than kLongestLine comes from a broken
// writer; the limit keeps it from filling the memory.
constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr size_t kLongestLine = size_t{1} << 20;

}  // namespace

bool LineTail::read(const Take& take) {
  const auto look = os::find_look(file_);
  bool has_news = false;
  if (!identity_ || (look && look->identity != *identity_)) {
    has_news = catch_up(take);
  }
  if (!look) {
    return has_news;
  }
  if (identity_ == look->identity && look->size < offset_) {  // truncated by its writer
    begin_file();
    ++losses_;
  }
  if (identity_ == look->identity && look->size == offset_) {
    return has_news;
  }
  return read_file(file_, look->identity, take) || has_news;
}

// The rotated files, the newest first.
std::vector<LineTail::Aside> LineTail::find_aside() const {
  std::vector<Aside> aside;
  for (;;) {
    std::filesystem::path path = file_;
    path += "." + std::to_string(aside.size() + 1);
    const auto look = os::find_look(path);
    if (!look) {
      return aside;
    }
    aside.push_back({.path = std::move(path), .identity = look->identity});
  }
}

// Reads the rest of the file that was read last, which has been rotated, and all files between it
// and the current one, the oldest first.
bool LineTail::catch_up(const Take& take) {
  const std::vector<Aside> aside = find_aside();
  size_t oldest = aside.size();
  if (identity_) {
    const auto found = std::find_if(aside.begin(), aside.end(), [this](const Aside& one) {
      return one.identity == *identity_;
    });
    if (found == aside.end()) {  // deleted: the lines that were not read yet are lost
      begin_file();
      identity_.reset();
      ++losses_;
      return false;
    }
    oldest = static_cast<size_t>(found - aside.begin()) + 1;
  }
  bool has_news = false;
  while (oldest > 0) {
    --oldest;
    has_news = read_file(aside[oldest].path, aside[oldest].identity, take) || has_news;
  }
  return has_news;
}

// Stops if the path refers to another file, because it was rotated meanwhile. The next call of
// read() then finds the old file under its new name and continues at offset_. A file is opened by
// name for each piece, so each piece is compared with the expected inode.
bool LineTail::read_file(const std::filesystem::path& path,
                         const os::FileIdentity& expected,
                         const Take& take) {
  if (identity_ != expected) {
    begin_file();
    identity_ = expected;
  }
  for (bool has_news = false;; has_news = true) {
    const auto piece = os::find_piece(path, offset_, kPieceBytes);
    if (!piece || piece->look.identity != expected || piece->bytes.empty()) {
      return has_news;
    }
    offset_ += piece->bytes.size();
    give(piece->bytes, take);
    if (piece->bytes.size() < kPieceBytes) {
      return true;
    }
  }
}

// A line can be spread over any number of pieces and calls. rest_ has the part that has been read,
// and is_skipping_ discards the remainder of a line that was too long.
void LineTail::give(std::string_view bytes, const Take& take) {
  for (;;) {
    const size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      break;
    }
    if (is_skipping_) {
      is_skipping_ = false;
    } else if (rest_.empty()) {
      take(bytes.substr(0, end));
    } else {
      rest_ += bytes.substr(0, end);
      take(rest_);
    }
    rest_.clear();
    bytes.remove_prefix(end + 1);
  }
  if (!is_skipping_) {
    rest_ += bytes;
  }
  if (rest_.size() > kLongestLine) {
    rest_.clear();
    is_skipping_ = true;
    ++losses_;
  }
}

// A partial line at the end of the previous file is dropped. The writer never continues a line in
// another file: each append is one write of whole lines, so a partial line is the trace of a crash.
void LineTail::begin_file() {
  offset_ = 0;
  rest_.clear();
  is_skipping_ = false;
}

}  // namespace lockstep::monitor
