// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <memory>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <string>

namespace lockstep::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::Debug:
      return spdlog::level::debug;
    case Level::Info:
      return spdlog::level::info;
    case Level::Warn:
      return spdlog::level::warn;
    case Level::Error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::shared_ptr<spdlog::logger> make_logger(std::string_view speaker) {
  auto logger = std::make_shared<spdlog::logger>(std::string("lockstep"),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  std::string prefix(speaker);
  if (!prefix.empty()) {
    prefix += ' ';
  }
  logger->set_pattern("%H:%M:%S.%e %L " + prefix + "%v");
  logger->set_level(spdlog::level::info);
  return logger;
}

// The only mutable global state: the destination of the log. Set once by open().
std::shared_ptr<spdlog::logger>& logger() {
  static std::shared_ptr<spdlog::logger> instance = make_logger("");
  return instance;
}

}  // namespace

void open(Level minimum, std::string_view speaker) {
  logger() = make_logger(speaker);
  logger()->set_level(to_spdlog(minimum));
}

// Flushed at once: the last line before an abort or a SIGKILL is the most valuable one, and stderr
// is a pipe to the agent.
void write(Level level, std::string_view text) {
  logger()->log(to_spdlog(level), "{}", text);
  logger()->flush();
}

}  // namespace lockstep::log
