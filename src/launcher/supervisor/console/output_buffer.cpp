// SPDX-License-Identifier: Apache-2.0
//
// A queue of large pieces between the event loop and a descriptor that may be slow:
//
//   add_lines() --> [ piece | piece | piece ] --> write_front() --> fd
//                   ^ written_of_front_
//
//   waiting_bytes_ <= 16 MiB   lines are added
//   above                      lines are dropped and counted, until it has fallen to 8 MiB
//
// Between the two limits, dropping continues: without this hysteresis a reader that is slightly too
// slow would see a message about dropped lines every few lines.
#include "launcher/supervisor/console/output_buffer.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <utility>

#include "common/base/text.h"
#include "common/os/pipe.h"
#include "common/os/terminal.h"

namespace lockstep::supervisor {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 18;
constexpr size_t kMaxPerCall = size_t{1} << 20;
constexpr size_t kMaxPerSlice = size_t{1} << 16;

bool is_ready(int fd) {
  os::Watch watch{.fd = fd, .for_write = true, .is_ready = false};
  os::wait_for({&watch, 1}, std::chrono::milliseconds(0));
  return watch.is_ready;
}

// Counts the line ends, 32 bytes per step. With a loop over bytes, counting would be the slowest
// part of the output path. `counts` holds one counter per byte position of a word; it is added up
// before a counter can overflow (63 blocks of 4 words: at most 252).
uint64_t count_ends(std::string_view text) {
  constexpr uint64_t kOnes = 0x0101010101010101U;
  constexpr uint64_t kLow = 0x7F * kOnes;
  constexpr uint64_t kEvenBytes = 0x00FF00FF00FF00FFU;
  constexpr uint64_t kSum = 0x0001000100010001U;
  constexpr size_t kMaxBeforeOverflow = 63;
  using Block = std::array<uint64_t, 4>;
  uint64_t count = 0;
  size_t at = 0;
  while (at + sizeof(Block) <= text.size()) {
    const size_t blocks = std::min((text.size() - at) / sizeof(Block), kMaxBeforeOverflow);
    uint64_t counts = 0;
    for (size_t i = 0; i < blocks; ++i, at += sizeof(Block)) {
      Block block{};
      std::memcpy(block.data(), text.data() + at, sizeof(block));
      for (uint64_t word : block) {
        word ^= '\n' * kOnes;                                     // zero byte at a line end
        counts += ~(((word & kLow) + kLow) | word | kLow) >> 7U;  // 1 for a zero byte
      }
    }
    count += (((counts & kEvenBytes) + ((counts >> 8U) & kEvenBytes)) * kSum) >> 48U;
  }
  text.remove_prefix(at);
  return count + static_cast<uint64_t>(std::count(text.begin(), text.end(), '\n'));
}

uint64_t count_lines(std::string_view lines) {
  return count_ends(lines) + (lines.empty() || lines.back() == '\n' ? 0 : 1);
}

// The lines that end within the first `maximum` bytes, but at least one line.
std::string_view first_lines(std::string_view lines, size_t maximum) {
  if (lines.size() <= maximum) {
    return lines;
  }
  size_t end = lines.substr(0, maximum).rfind('\n');
  end = end == std::string_view::npos ? lines.find('\n') : end;
  return lines.substr(0, end == std::string_view::npos ? end : end + 1);
}

}  // namespace

OutputBuffer::Kind OutputBuffer::kind_of(int fd) {
  if (os::is_terminal(fd)) {
    return Kind::Terminal;
  }
  if (os::is_regular_file(fd)) {
    return Kind::File;
  }
  return os::is_null_device(fd) ? Kind::NoReader : Kind::Pipe;
}

// O_NONBLOCK belongs to the open file description, which this process shares with the shell and
// with other programs of a pipeline. Setting it on stdout would break them; a second description of
// the same pipe or terminal has its own flag.
OutputBuffer::OutputBuffer(int fd, Kind kind) : kind_(kind), fd_(fd) {
  if (kind_ == Kind::Pipe || kind_ == Kind::Terminal) {
    own_ = os::open_nonblocking_twin(fd);
    fd_ = own_.is_open() ? own_.number() : fd;
  }
}

// Returns room for `bytes` more bytes.
char* OutputBuffer::make_room(size_t bytes) {
  if (pieces_.empty() || pieces_.back().capacity - pieces_.back().size < bytes) {
    if (!pieces_.empty() && pieces_.back().size == 0) {
      pieces_.pop_back();
    }
    const size_t capacity = std::max(bytes, kPieceBytes);
    // NOLINTNEXTLINE(modernize-avoid-c-arrays)
    auto text = std::make_unique_for_overwrite<char[]>(capacity);
    pieces_.push_back({.text = std::move(text), .size = 0, .capacity = capacity});
  }
  Piece& piece = pieces_.back();
  char* const room = piece.text.get() + piece.size;
  piece.size += bytes;
  waiting_bytes_ += bytes;
  return room;
}

void OutputBuffer::add(std::string_view text) {
  if (!has_no_reader() && !text.empty()) {
    std::memcpy(make_room(text.size()), text.data(), text.size());
  }
}

// The room is computed exactly and claimed at once; the loop must fill all of it.
void OutputBuffer::append_prefixed(std::string_view prefix, std::string_view lines) {
  const size_t last_end = lines.back() == '\n' ? 0 : 1;
  char* to = make_room(lines.size() + count_lines(lines) * prefix.size() + last_end);
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    const std::string_view line = lines.substr(0, end);
    std::memcpy(to, prefix.data(), prefix.size());
    to += prefix.size();
    std::memcpy(to, line.data(), line.size());
    to += line.size();
    *to++ = '\n';
    lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  }
}

// Slices bound the size of one claim, so that a chunk of 256 KiB with a prefix per line does not
// need one huge piece. A file is written as soon as a piece is full: it accepts everything, and the
// buffer stays small.
void OutputBuffer::add_lines(std::string_view prefix, std::string_view lines) {
  if (has_no_reader() || lines.empty()) {
    return;
  }
  is_dropping_ = kind_ != Kind::File && (is_dropping_ || waiting_bytes_ > kMaxWaitingBytes);
  if (is_dropping_) {
    dropped_lines_ += count_lines(lines);
    dropped_bytes_ += lines.size();
    return;
  }
  while (!lines.empty() && !has_no_reader()) {
    const std::string_view slice = first_lines(lines, kMaxPerSlice);
    if (prefix.empty() && slice.back() == '\n') {
      add(slice);
    } else {
      append_prefixed(prefix, slice);
    }
    lines.remove_prefix(slice.size());
    if (kind_ == Kind::File && waiting_bytes_ >= kPieceBytes) {
      write_some();
    }
  }
}

// Without an own description (a socket, the terminal of another user) the descriptor may block. For
// a pipe, poll() then promises room for kAtomicBytes, so not more than that is written at a time.
bool OutputBuffer::write_front() {
  Piece& front = pieces_.front();
  std::string_view left(front.text.get() + written_of_front_, front.size - written_of_front_);
  if (kind_ != Kind::File && !own_.is_open()) {
    if (!is_ready(fd_)) {
      return false;
    }
    left = first_lines(left.substr(0, os::kAtomicBytes), os::kAtomicBytes);
  }
  const auto count = os::write_some(fd_, left);
  if (!count) {
    give_up();
    return false;
  }
  written_of_front_ += *count;
  waiting_bytes_ -= *count;
  if (written_of_front_ == front.size) {
    if (pieces_.size() == 1) {
      front.size = 0;  // keeps its memory for the next output
    } else {
      pieces_.pop_front();
    }
    written_of_front_ = 0;
  }
  return *count > 0;
}

// At most kMaxPerCall per call: a fast reader must not keep the event loop here. A file is the
// exception: it never drops a line, so its buffer must become empty.
void OutputBuffer::write_some() {
  const size_t enough = waiting_bytes_ - std::min(waiting_bytes_, kMaxPerCall);
  while (waiting_bytes_ > 0 && (kind_ == Kind::File || waiting_bytes_ >= enough) && write_front()) {
  }
  if (is_dropping_ && waiting_bytes_ <= kRoomAgainBytes) {
    report_dropped();
  }
}

void OutputBuffer::report_dropped() {
  is_dropping_ = false;
  if (dropped_lines_ > 0) {
    add(fmt::format(
        "lockstep: {} {} ({}) not shown: the reader is too slow; the log files are complete\n",
        dropped_lines_,
        dropped_lines_ == 1 ? "line" : "lines",
        format_bytes(dropped_bytes_)));
  }
  dropped_lines_ = 0;
  dropped_bytes_ = 0;
}

void OutputBuffer::give_up() {
  kind_ = Kind::NoReader;
  pieces_.clear();
  written_of_front_ = 0;
  waiting_bytes_ = 0;
  dropped_lines_ = 0;
}

int OutputBuffer::waiting_fd() const {
  return waiting_bytes_ == 0 ? -1 : fd_;
}

}  // namespace lockstep::supervisor
