// SPDX-License-Identifier: Apache-2.0
//
// A failure has two readers: a person, who sees the box just above the shell prompt, and programs,
// which read failure.json. Both texts are derived from the same Failure and the same hint, so they
// cannot disagree. The report is made on the node of the worker, because the log, the error file
// and the OOM counters are there; the leader adds what it knows about the run.
#include "launcher/supervisor/failure/failure.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include "common/base/text.h"
#include "common/os/signals.h"
#include "launcher/supervisor/failure/hint.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

constexpr size_t kBoxWidth = 78;
// Maximum length of an output line in the box; the log contains the rest.
constexpr size_t kMaxLineLength = 500;
// The part of a log that is searched for an exception.
constexpr size_t kLinesToSearch = 400;
constexpr std::streamoff kBytesToSearch = 1 << 16;
constexpr size_t kMaxNodes = 4;

// The meaning of an exit code of lockstep; empty for other codes of the program.
std::string meaning_of(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::Usage:
      return " (invalid or conflicting options)";
    case ExitCode::Unavailable:
      return " (something that it needs is unavailable)";
    case ExitCode::Bug:
      return " (a bug in lockstep)";
    case ExitCode::Io:
      return " (a file cannot be read or written)";
    case ExitCode::TryAgain:
      return " (requests a restart)";
    default:
      return "";
  }
}

// The end of the terminal escape sequence that starts at `at`. CSI sequences ("ESC [ parameters
// final") end with a byte from '@' to '~' (ECMA-48). All others are taken as two bytes long.
size_t end_of_escape(std::string_view line, size_t at) {
  if (at + 1 >= line.size() || line[at + 1] != '[') {
    return std::min(at + 2, line.size());
  }
  const auto* const end =
      std::find_if(line.begin() + at + 2, line.end(), [](char c) { return c >= '@' && c <= '~'; });
  return std::min(static_cast<size_t>(end - line.begin()) + 1, line.size());
}

// An output line for the box: without colours and cursor movements, and of limited length.
std::string to_plain(std::string_view line) {
  while (line.ends_with('\r')) {
    line.remove_suffix(1);
  }
  line.remove_prefix(line.rfind('\r') + 1);  // text that a progress bar has overwritten
  std::string plain;
  for (size_t at = 0; at < line.size() && plain.size() < kMaxLineLength;) {
    if (line[at] == '\x1b') {
      at = end_of_escape(line, at);
      continue;
    }
    const bool is_control = static_cast<unsigned char>(line[at]) < ' ' && line[at] != '\t';
    plain += is_control ? ' ' : line[at];
    ++at;
  }
  if (plain.size() == kMaxLineLength) {
    // Do not cut a UTF-8 character in two.
    while (!plain.empty() && (static_cast<unsigned char>(plain.back()) & 0xc0U) == 0x80U) {
      plain.pop_back();
    }
    plain.pop_back();
    plain += " ...";
  }
  return plain;
}

// A row of the box. A long text continues in the lines below. 9 columns are for "| ", the label
// with 6 columns, and a blank.
std::string row(std::string_view label, std::string_view text) {
  constexpr std::string_view kStart = "| {:<6} {}\n";
  constexpr size_t kRoom = kBoxWidth - 9;
  std::string rows;
  do {
    size_t length = text.size();
    if (length > kRoom) {
      const size_t blank = text.rfind(' ', kRoom);
      // A word that does not fit, such as a path, is not split.
      length = blank == std::string_view::npos || blank == 0 ? text.find(' ', 1) : blank;
      length = std::min(length, text.size());
    }
    rows += fmt::format(fmt::runtime(kStart), label, text.substr(0, length));
    text.remove_prefix(length);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    label = "";
  } while (!text.empty());
  return rows;
}

std::string describe(const PythonFrame& frame) {
  return fmt::format(
      "{}:{}{}", frame.file, frame.line, frame.function.empty() ? "" : " in " + frame.function);
}

std::string exception_rows(const PythonException& exception) {
  std::string rows = row("why", to_plain(exception.text));
  if (exception.raised_at) {
    rows += row("", "at " + describe(*exception.raised_at));
  }
  if (exception.called_from) {
    rows += row("", "called from " + describe(*exception.called_from));
  }
  return rows;
}

std::string describe_time(const Failure& failure) {
  std::string text;
  if (failure.seconds > 0) {
    text = format_duration(failure.seconds) + " after the start";
  }
  if (failure.attempt > 0 || failure.max_restarts > 0) {
    text += fmt::format("{}attempt {} of {}",
                        text.empty() ? "" : ", ",
                        failure.attempt + 1,
                        std::max(failure.attempt, failure.max_restarts) + 1);
  }
  return text;
}

std::string describe_stopped(const std::vector<StoppedWorkers>& stopped) {
  int total = 0;
  std::vector<std::string> places;
  for (const StoppedWorkers& group : stopped) {
    total += group.count;
    places.push_back(fmt::format("{} on {}", group.count, group.node));
  }
  if (places.size() == 1) {
    return fmt::format("stopped {} on {}", plural(total, "worker"), stopped.front().node);
  }
  if (places.size() > kMaxNodes) {
    const size_t rest = places.size() - kMaxNodes;
    places.resize(kMaxNodes);
    places.push_back("the rest on " + plural(static_cast<int64_t>(rest), "more node"));
  }
  return fmt::format("stopped {}: {}", plural(total, "worker"), join(places, ", "));
}

}  // namespace

std::string describe_death(const Failure& failure) {
  if (!failure.cause.empty()) {
    return failure.cause;
  }
  const os::ExitStatus status = failure.status;
  if (status.signal == 0) {
    return fmt::format("exited with code {}{}", status.code, meaning_of(status.code));
  }
  if (status.signal != SIGKILL) {
    return fmt::format("was killed by {}", os::signal_name(status.signal));
  }
  switch (failure.out_of_memory) {
    case OutOfMemory::Yes:
      return "was killed by SIGKILL, by the kernel's OOM killer: out of memory";
    case OutOfMemory::Perhaps:
      return "was killed by SIGKILL, possibly by the kernel's OOM killer: out of memory";
    case OutOfMemory::No:
      break;
  }
  return "was killed by SIGKILL";
}

std::string to_box(const Failure& failure) {
  const std::string title = fmt::format("+-- {} failed ", failure.who);
  std::string box = fmt::format("{:-<{}}\n", title, kBoxWidth);
  const auto add = [&box](std::string_view label, const std::string& text) {
    if (!text.empty()) {
      box += row(label, text);
    }
  };
  add("how", describe_death(failure));
  if (failure.exception) {
    box += exception_rows(*failure.exception);
  }
  if (failure.pid != 0) {
    add("where",
        fmt::format(
            "local rank {} on {}, process {}", failure.local_rank, failure.node, failure.pid));
  }
  add("when", describe_time(failure));
  if (!failure.stopped.empty()) {
    add("also", describe_stopped(failure.stopped));
  }
  add("note", failure.note);
  if (!failure.last_lines.empty()) {
    box += "| last lines:\n";
  } else if (failure.pid != 0) {
    add("output", "none");
  }
  for (const std::string& line : failure.last_lines) {
    box += fmt::format("|   {}\n", to_plain(line));
  }
  // Last, because these rows are just above the prompt of the shell.
  add("log", failure.log.string());
  add("try", find_hint(failure).text);
  return box + fmt::format("{:-<{}}\n", "+", kBoxWidth);
}

// More lines are read than shown: the traceback of a deep call stack is longer than the last 20
// lines. The error file is preferred, since the program wrote it on purpose and its text cannot be
// mixed with that of other threads.
void add_last_output(Failure& failure, const LastOutputFiles& words) {
  std::vector<std::string> lines =
      read_last_lines(failure.log, std::max(words.maximum, kLinesToSearch), words.log_begin);
  std::ifstream file(words.error_file, std::ios::binary);
  if (!words.error_file.empty() && file) {
    const std::string text((std::istreambuf_iterator<char>(file)),
                           std::istreambuf_iterator<char>());
    failure.exception = find_recorded_exception(text);
  }
  // The log of a killed worker may contain an exception that it had handled long before.
  const bool may_have_thrown = failure.status.signal == 0 || failure.status.signal == SIGABRT;
  if (!failure.exception && may_have_thrown) {
    failure.exception = find_exception(lines);
  }
  if (lines.size() > words.maximum) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(words.maximum));
  }
  failure.last_lines = std::move(lines);
}

std::string to_json(const Failure& failure) {
  const FailureHint advice = find_hint(failure);
  return contract::to_json({.failure = failure,
                            .how = describe_death(failure),
                            .advice = advice.id,
                            .hint = advice.text});
}

// Reads at most the last kBytesToSearch bytes: a log can have gigabytes. The first line is dropped
// if it is incomplete.
std::vector<std::string> read_last_lines(const std::filesystem::path& path,
                                         size_t maximum,
                                         int64_t begin) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? static_cast<std::streamoff>(file.tellg()) : 0;
  if (size <= begin) {
    return {};
  }
  const bool is_cut = size - begin > kBytesToSearch;
  file.seekg(is_cut ? size - kBytesToSearch : begin);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  std::vector<std::string> lines = split(text, '\n');
  if (is_cut && lines.size() > 1) {
    lines.erase(lines.begin());
  }
  if (lines.size() > maximum) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(maximum));
  }
  return lines;
}

}  // namespace lockstep::supervisor
