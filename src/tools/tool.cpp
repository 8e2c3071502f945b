// SPDX-License-Identifier: Apache-2.0
#include "tools/tool.h"

#include <csignal>
#include <cstdio>
#include <exception>
#include <fmt/format.h>

#include "common/os/signals.h"
#include "common/os/standard_streams.h"
#include "lockstep/error.h"

namespace lockstep::tool {

// Exceptions become exit codes here and nowhere else. Order of the handlers: help and version are
// exceptions of CLI11 and count as success; a closed pipe ("lockstep-ckpt inspect | head") is
// success as well; everything that is not an Error is a bug. The output is flushed before success
// is reported, so that a full disk is not missed.
int run(CLI::App& app, int argc, const char* const* argv, const std::function<void()>& check) {
  os::open_missing_streams();
  os::ignore_signal(SIGXFSZ);  // the write then fails with EFBIG, like on a full disk
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
    fmt::print(stderr,
               "{0}: error: invalid command line\n  reason: {1}\n  try:    {0} --help\n",
               app.get_name(),
               fault.what());
    return static_cast<int>(ExitCode::Usage);
  } catch (const Error& error) {
    fmt::print(stderr, "{}: error: {}\n", app.get_name(), error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& fault) {
    if (const auto code = os::report_lost_output(app.get_name(), fault)) {
      return *code;
    }
    fmt::print(stderr, "{}: error: a bug in lockstep: {}\n", app.get_name(), fault.what());
    return static_cast<int>(ExitCode::Bug);
  }
}

}  // namespace lockstep::tool
