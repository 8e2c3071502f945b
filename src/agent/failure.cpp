// SPDX-License-Identifier: Apache-2.0
#include "agent/failure.h"

#include <algorithm>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "lockstep/error.h"
#include "os/signals.h"

namespace lockstep::agent {
namespace {

constexpr size_t kBoxWidth = 78;

// What the code says by our contract; nothing for a program's own codes.
std::string meaning_of(int code) {
  switch (static_cast<ExitCode>(code)) {
    case ExitCode::Usage:
      return " (usage)";
    case ExitCode::Unavailable:
      return " (something it needs is unavailable)";
    case ExitCode::Bug:
      return " (a bug of lockstep)";
    case ExitCode::Io:
      return " (input or output)";
    case ExitCode::TryAgain:
      return " (it asks to be started again)";
    default:
      return "";
  }
}

std::string row(std::string_view label, std::string_view text) {
  return fmt::format("| {:<6} {}\n", label, text);
}

}  // namespace

std::string describe_death(const Failure& failure) {
  const os::ExitStatus status = failure.status;
  if (status.signal == 0) {
    return fmt::format("left with code {}{}", status.code, meaning_of(status.code));
  }
  if (status.signal == SIGKILL) {
    return failure.may_be_out_of_memory
               ? "was killed by SIGKILL, perhaps by the kernel's OOM killer: out of memory"
               : "was killed by SIGKILL";
  }
  return fmt::format("died by {}", os::signal_name(status.signal));
}

std::string to_box(const Failure& failure) {
  const std::string title = fmt::format("+-- {} failed ", failure.who);
  std::string box = fmt::format("{:-<{}}\n", title, kBoxWidth);
  box += row("how", describe_death(failure));
  box += row("where",
             fmt::format("local rank {} on {}, process {}, attempt {}",
                         failure.local_rank,
                         failure.node,
                         failure.pid,
                         failure.attempt));
  if (!failure.note.empty()) {
    box += row("note", failure.note);
  }
  box += row("log", failure.log.string());
  if (failure.last_lines.empty()) {
    box += row("said", "nothing");
  } else {
    box += "| its last lines:\n";
  }
  for (const std::string& line : failure.last_lines) {
    box += fmt::format("|   {}\n", line);
  }
  return box + fmt::format("{:-<{}}\n", "+", kBoxWidth);
}

std::string to_json(const Failure& failure) {
  using Json = nlohmann::ordered_json;
  Json json = {{"format", 1},
               {"who", failure.who},
               {"rank", failure.rank},
               {"local_rank", failure.local_rank},
               {"node", failure.node},
               {"pid", failure.pid},
               {"attempt", failure.attempt},
               {"how", describe_death(failure)},
               {"exit_code", failure.status.shell_code()},
               {"signal", nullptr},
               {"may_be_out_of_memory", failure.may_be_out_of_memory},
               {"note", failure.note},
               {"log", failure.log.string()},
               {"last_lines", failure.last_lines}};
  if (failure.status.signal != 0) {
    json["signal"] = os::signal_name(failure.status.signal);
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> read_last_lines(const std::filesystem::path& path, size_t most) {
  constexpr std::streamoff kEnoughBytes = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) {
    return {};
  }
  const std::streamoff size = file.tellg();
  const bool is_cut = size > kEnoughBytes;
  file.seekg(is_cut ? size - kEnoughBytes : 0);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.ends_with('\n')) {
    text.pop_back();
  }
  std::vector<std::string> lines = split(text, '\n');
  if (is_cut && lines.size() > 1) {
    lines.erase(lines.begin());
  }
  if (lines.size() > most) {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(most));
  }
  return lines;
}

}  // namespace lockstep::agent
