// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/env_run.h"

#include <csignal>

#include "common/os/command.h"
#include "common/os/files.h"
#include "common/os/process.h"
#include "common/os/reactor.h"
#include "common/os/signals.h"
#include "lockstep/error.h"

// The script runs in a process group of its own, so that a signal reaches all of its children (pip,
// compilers). The terminal then sends Ctrl-C to this process only, which forwards it. The signals
// are blocked before the child starts: none can be lost in between. The child itself starts with an
// empty mask (os::start).
namespace lockstep::cli {

// The script is written with mode 0600 and removed with its directory. It does not replace this
// process, because the temporary directory must be removed at the end.
int run_script(const std::string& script, const os::Environment& environment) {
  const auto bash = os::find_program("bash", environment);
  if (!bash) {
    throw Error(ExitCode::Unavailable, "cannot build on this machine: bash is not in PATH")
        .hint("lockstep env build --submit");
  }
  const os::TemporaryDirectory directory("lockstep-env");
  const std::string path = (directory.path() / "build.sh").string();
  os::write_private(path, script);
  os::SignalFd signals({SIGINT, SIGTERM, SIGHUP});
  os::Child child = os::start({.executable = bash->string(),
                               .arguments = {"bash", path},
                               .environment = environment,
                               .inherited = {},
                               .directory = "",
                               .has_own_group = true});
  os::Reactor reactor;
  reactor.watch(child.fd(), os::Reactor::For::Read, [] {});
  reactor.watch(signals.fd(), os::Reactor::For::Read, [&] {
    if (const auto signal = signals.find_pending()) {
      child.signal_group(*signal);
    }
  });
  while (true) {
    if (const auto status = child.find_exit()) {
      return status->shell_code();
    }
    reactor.turn(std::nullopt);
  }
}

}  // namespace lockstep::cli
