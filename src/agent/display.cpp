// SPDX-License-Identifier: Apache-2.0
#include "agent/display.h"

#include <algorithm>
#include <chrono>

#include "os/pipe.h"
#include "os/terminal.h"

namespace lockstep::agent {
namespace {

constexpr std::string_view kClearLine = "\r\x1b[2K";
constexpr size_t kMostPerPiece = size_t{1} << 18;
constexpr size_t kMostPerCall = size_t{1} << 20;

bool is_ready(int fd) {
  os::Watch watch{.fd = fd, .for_write = true, .is_ready = false};
  os::wait_for({&watch, 1}, std::chrono::milliseconds(0));
  return watch.is_ready;
}

// A piece that a pipe takes without blocking, cut after a line where it holds one.
std::string_view next_piece(std::string_view text) {
  if (text.size() <= os::kAtomicBytes) {
    return text;
  }
  const std::string_view piece = text.substr(0, os::kAtomicBytes);
  const size_t end = piece.rfind('\n');
  return end == std::string_view::npos ? piece : piece.substr(0, end + 1);
}

}  // namespace

Display Display::of_this_process() {
  constexpr int kUsualColumns = 80;
  const auto target = [](int fd) {
    return Target{.fd = fd,
                  .is_terminal = os::is_terminal(fd),
                  .is_file = os::is_regular_file(fd),
                  .is_gone = false};
  };
  return {
      target(1),
      target(2),
      os::find_terminal_columns(1).value_or(os::find_terminal_columns(2).value_or(kUsualColumns))};
}

Display::Display(Target out, Target err, int columns) : out_(out), err_(err), columns_(columns) {}

Display::Target* Display::screen() {
  if (out_.is_terminal) {
    return &out_;
  }
  return err_.is_terminal ? &err_ : nullptr;
}

void Display::add(Target& target, std::string_view text) {
  if (target.is_gone || text.empty()) {
    return;
  }
  if (pieces_.empty() || pieces_.back().target != &target ||
      pieces_.back().text.size() > kMostPerPiece) {
    pieces_.push_back({&target, {}});
  }
  pieces_.back().text += text;
  waiting_bytes_ += text.size();
}

void Display::add_lines(Stream stream, std::string_view lines) {
  Target& target = stream == Stream::Out ? out_ : err_;
  const bool is_over_status = !status_.empty() && target.is_terminal;
  if (is_over_status) {
    add(target, kClearLine);
  }
  add(target, lines);
  if (is_over_status) {
    add(*screen(), status_);
  }
}

void Display::show_status(std::string_view text) {
  Target* const target = screen();
  if (target == nullptr || text.empty()) {
    return;
  }
  status_ = cut_to_columns(text, columns_ - 1);
  add(*target, kClearLine);
  add(*target, status_);
}

void Display::clear_status() {
  if (!status_.empty()) {
    add(*screen(), kClearLine);
    status_.clear();
  }
}

bool Display::write_front() {
  Piece& front = pieces_.front();
  const std::string_view left = std::string_view(front.text).substr(written_of_front_);
  std::optional<size_t> count = left.size();
  if (!front.target->is_gone) {
    if (!front.target->is_file && !is_ready(front.target->fd)) {
      return false;
    }
    count = os::write_some(front.target->fd, front.target->is_file ? left : next_piece(left));
  }
  if (!count) {
    front.target->is_gone = true;
    return true;
  }
  written_of_front_ += *count;
  waiting_bytes_ -= *count;
  if (written_of_front_ == front.text.size()) {
    pieces_.pop_front();
    written_of_front_ = 0;
  }
  return *count > 0;
}

void Display::write_some() {
  const size_t enough = waiting_bytes_ - std::min(waiting_bytes_, kMostPerCall);
  while (!pieces_.empty() && waiting_bytes_ >= enough && write_front()) {
  }
}

void Display::give_up() {
  out_.is_gone = true;
  err_.is_gone = true;
  pieces_.clear();
  written_of_front_ = 0;
  waiting_bytes_ = 0;
}

int Display::waiting_fd() const {
  return pieces_.empty() ? -1 : pieces_.front().target->fd;
}

std::string cut_to_columns(std::string_view text, int columns) {
  std::string cut;
  int used = 0;
  bool is_escape = false;
  for (const char c : text) {
    const bool starts_character = (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
    if (c == '\x1b') {
      is_escape = true;
    } else if (!is_escape && starts_character && ++used > columns) {
      cut += cut.find('\x1b') == std::string::npos ? "" : "\x1b[0m";
      break;
    }
    cut += c;
    // An escape sequence ends with a letter; its '[' is none.
    is_escape = is_escape && !(c >= '@' && c <= '~' && c != '[');
  }
  return cut;
}

}  // namespace lockstep::agent
