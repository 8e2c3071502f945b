// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <string_view>
#include <utility>

// Writes one line to stderr: time, level letter, prefix, text. Thread-safe.
namespace lockstep::log {

enum class Level { Debug, Info, Warn, Error };

// Sets the minimum level and the prefix ("rank 3"). Call once, at the start of a process.
void open(Level minimum, std::string_view speaker);

void write(Level level, std::string_view text);

template <typename... Args>
void debug(fmt::format_string<Args...> form, Args&&... args) {
  write(Level::Debug, fmt::format(form, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> form, Args&&... args) {
  write(Level::Info, fmt::format(form, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> form, Args&&... args) {
  write(Level::Warn, fmt::format(form, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> form, Args&&... args) {
  write(Level::Error, fmt::format(form, std::forward<Args>(args)...));
}

}  // namespace lockstep::log
