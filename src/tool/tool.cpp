// SPDX-License-Identifier: Apache-2.0
#include "tool/tool.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fmt/format.h>
#include <system_error>

#include "lockstep/error.h"
#include "os/signals.h"
#include "os/standard_streams.h"

namespace lockstep::tool {

int run(CLI::App& app, int argc, const char* const* argv, const std::function<void()>& check) {
  os::open_missing_streams();
  os::ignore_signal(SIGXFSZ);  // a file that may grow no more is a full disk
  app.set_version_flag("--version", app.get_name() + " " LOCKSTEP_VERSION);
  try {
    if (check) {
      check();
    }
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      fmt::print("{}", app.help());
    } catch (const CLI::CallForVersion& version) {
      fmt::print("{}\n", version.what());
    }
    os::finish_output();
    return 0;
  } catch (const CLI::ParseError& fault) {
    fmt::print(
        stderr,
        "{0}: error: cannot understand the command line\n  reason: {1}\n  try:    {0} --help\n",
        app.get_name(),
        fault.what());
    return static_cast<int>(ExitCode::Usage);
  } catch (const Error& error) {
    fmt::print(stderr, "{}: error: {}\n", app.get_name(), error.what());
    return static_cast<int>(error.code());
  } catch (const std::system_error& fault) {
    // As fmt tells that it cannot print; a reader who has gone wants no more.
    const bool is_output = std::ferror(stdout) != 0;
    if (is_output && fault.code().value() == EPIPE) {
      return 0;
    }
    fmt::print(stderr,
               "{}: error: {}\n  reason: {}\n",
               app.get_name(),
               is_output ? "cannot write to the standard output" : "a bug of lockstep",
               fault.what());
    return static_cast<int>(is_output ? ExitCode::Io : ExitCode::Bug);
  } catch (const std::exception& fault) {
    fmt::print(stderr, "{}: error: a bug of lockstep: {}\n", app.get_name(), fault.what());
    return static_cast<int>(ExitCode::Bug);
  }
}

}  // namespace lockstep::tool
