// SPDX-License-Identifier: Apache-2.0
//
//   take_lines() -- world size 1 ------------------------------+
//        |                                                     v
//        +-- LineMerger (100 ms) --> show_ready() --> add_lines() --> OutputBuffer --> stdout, err
//        |                                                     ^
//        +-- flood: without a comparison ----------------------+
//
// On a terminal the status line is always the last line: it is cleared before other text and drawn
// again after it.
#include "launcher/supervisor/console/display.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/os/pipe.h"
#include "common/os/terminal.h"

namespace lockstep::supervisor {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kClearLine = "\r\x1b[2K";
constexpr std::string_view kPlain = "\x1b[0m";
constexpr std::string_view kDim = "\x1b[2m";
// Cyan, green, yellow, magenta, blue. Not red, which stands for errors.
constexpr std::array<std::string_view, 5> kColours = {
    "\x1b[36m", "\x1b[32m", "\x1b[33m", "\x1b[35m", "\x1b[34m"};

// Limits per window. Beyond them lines are shown without a search for identical ones, which would
// use a whole core.
constexpr size_t kMaxBytesOfRank = size_t{128} << 10;
constexpr size_t kMaxWork = 200000;
constexpr std::chrono::seconds kStatusTime(2);
constexpr size_t kMaxWaitingForStatus = size_t{64} << 10;

// Removes the first line from `lines` and returns it without its '\n'.
std::string_view take_line(std::string_view& lines) {
  const size_t end = lines.find('\n');
  const std::string_view line = lines.substr(0, end);
  lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
  return line;
}

bool may_colour(const os::Environment& environment) {
  return os::find_variable(environment, "NO_COLOR").value_or("").empty() &&
         os::find_variable(environment, "TERM").value_or("dumb") != "dumb";
}

}  // namespace

Display Display::of_this_process(int world_size, const os::Environment& environment) {
  constexpr int kUsualColumns = 80;
  const auto columns =
      os::find_terminal_columns(1).value_or(os::find_terminal_columns(2).value_or(kUsualColumns));
  return {{.fd = 1, .kind = OutputBuffer::kind_of(1)},
          {.fd = 2, .kind = OutputBuffer::kind_of(2)},
          {.world_size = world_size, .columns = columns, .has_colours = may_colour(environment)}};
}

// `2>&1` must keep the order of both streams: one buffer for both, because two buffers would be
// written independently.
Display::Display(Target out, Target err, const Options& options)
    : options_(options), out_(out.fd, out.kind), merger_(options.world_size) {
  if (!os::is_same_file(out.fd, err.fd)) {
    err_ = std::make_unique<OutputBuffer>(err.fd, err.kind);
  }
}

void Display::set_world_size(int world_size) {
  options_.world_size = world_size;
  merger_.set_world_size(world_size);
}

OutputBuffer& Display::outlet(Stream stream) {
  return stream == Stream::Out || err_ == nullptr ? out_ : *err_;
}

// A status line goes to the terminal, wherever it is: `lockstep run > log` leaves stderr.
OutputBuffer* Display::screen() {
  if (out_.is_terminal()) {
    return &out_;
  }
  return outlet(Stream::Err).is_terminal() ? &outlet(Stream::Err) : nullptr;
}

std::string Display::prefix(const RankSet& ranks, const OutputBuffer& to) const {
  if (options_.world_size == 1) {
    return "";
  }
  std::string plain = fmt::format("[{}]: ", to_string(ranks));
  if (!options_.has_colours || !to.is_terminal()) {
    return plain;
  }
  const auto lowest = static_cast<size_t>(ranks.ranges().front().first);
  return fmt::format(
      "{}{}{}", ranks.size() > 1 ? kDim : kColours[lowest % kColours.size()], plain, kPlain);
}

// Whether this rank, or all ranks together, write more than can be compared line by line. Windows
// are fixed intervals of the clock and not sliding ones, so that a meter is two numbers.
bool Display::is_flood(int rank, size_t bytes, Clock::time_point now) {
  const auto index = static_cast<size_t>(rank);
  if (index >= meters_.size()) {
    meters_.resize(index + 1);
  }
  const int64_t window = now.time_since_epoch() / LineMerger::kWindow;
  for (Meter* meter : {&meters_[index], &work_}) {
    if (meter->window != window) {
      *meter = {.window = window, .amount = 0};
    }
  }
  meters_[index].amount += bytes;
  return meters_[index].amount > kMaxBytesOfRank || work_.amount > kMaxWork;
}

// Returns the lines beyond the limits, which are shown without a comparison. Lines of this rank
// that still wait are released before the rest is shown directly, else they would appear after it.
std::string_view Display::collapse_some(int rank, Stream stream, std::string_view lines) {
  const Clock::time_point now = Clock::now();
  if (!is_flood(rank, lines.size(), now)) {
    const size_t before = merger_.work() - work_.amount;
    while (!lines.empty() && work_.amount <= kMaxWork) {
      merger_.add(rank, stream, take_line(lines), now);
      work_.amount = merger_.work() - before;
    }
  }
  if (!lines.empty()) {
    merger_.release(rank, stream);
  }
  show_ready(now);
  return lines;
}

void Display::take_lines(int rank, Stream stream, std::string_view lines) {
  OutputBuffer& to = outlet(stream);
  if (to.has_no_reader()) {
    return;
  }
  const std::string_view rest =
      options_.world_size == 1 ? lines : collapse_some(rank, stream, lines);
  if (!rest.empty()) {
    add_lines(to, prefix(RankSet(rank), to), rest);
  }
}

void Display::show_ready(Clock::time_point now) {
  while (const auto line = merger_.find_ready(now)) {
    OutputBuffer& to = outlet(line->stream);
    add_lines(to, prefix(line->ranks, to), line->text.empty() ? "\n" : line->text);
  }
}

void Display::add_lines(OutputBuffer& to, std::string_view prefix, std::string_view lines) {
  const bool is_over_status = !status_.empty() && &to == screen();
  if (is_over_status) {
    to.add(kClearLine);
  }
  to.add_lines(prefix, lines);
  if (is_over_status) {
    to.add(status_);
  }
}

// If the lowest rank stops drawing for kStatusTime, another rank takes over. Updates are skipped
// while the terminal is behind: only the newest text is of interest.
void Display::take_status(int rank, std::string_view text) {
  OutputBuffer* const target = screen();
  const Clock::time_point now = Clock::now();
  const bool is_of_other = rank > status_rank_ && now < status_time_ + kStatusTime;
  if (target == nullptr || text.empty() || is_of_other ||
      target->waiting_bytes() > kMaxWaitingForStatus) {
    return;
  }
  status_rank_ = rank;
  status_time_ = now;
  status_ =
      cut_to_columns(prefix(RankSet(rank), *target) + std::string(text), options_.columns - 1);
  target->add(kClearLine);
  target->add(status_);
}

void Display::clear_status() {
  if (!status_.empty() && screen() != nullptr) {
    screen()->add(kClearLine);
  }
  status_.clear();
}

void Display::say(std::string_view text) {
  show(fmt::format("lockstep: {}\n", text));
}

void Display::show(std::string_view lines) {
  merger_.release_all();
  show_ready(Clock::now());
  OutputBuffer& to = outlet(Stream::Err);
  const bool is_over_status = !status_.empty() && &to == screen();
  to.add(is_over_status ? kClearLine : "");
  to.add(lines);
  to.add(is_over_status ? status_ : "");
}

void Display::flush() {
  merger_.release_all();
  show_ready(Clock::now());
  out_.report_dropped();
  outlet(Stream::Err).report_dropped();
}

void Display::write_some() {
  show_ready(Clock::now());
  out_.write_some();
  if (err_ != nullptr) {
    err_->write_some();
  }
}

void Display::give_up() {
  out_.give_up();
  outlet(Stream::Err).give_up();
}

std::optional<milliseconds> Display::time_to_next() const {
  const auto next = merger_.next_time();
  if (!next) {
    return std::nullopt;
  }
  const auto now = Clock::now();
  return *next <= now ? milliseconds(0) : std::chrono::ceil<milliseconds>(*next - now);
}

std::array<int, 2> Display::waiting_fds() const {
  return {out_.waiting_fd(), err_ == nullptr ? -1 : err_->waiting_fd()};
}

size_t Display::waiting_bytes() const {
  return out_.waiting_bytes() + (err_ == nullptr ? 0 : err_->waiting_bytes());
}

// A line that wraps could not be cleared with one "\r ESC [2K". Wide characters count as one
// column; a status line of such text can still wrap.
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
    // An escape sequence ends with a byte from '@' to '~', except the '[' that introduces it.
    is_escape = is_escape && !(c >= '@' && c <= '~' && c != '[');
  }
  return cut;
}

}  // namespace lockstep::supervisor
