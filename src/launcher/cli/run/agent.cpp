// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "common/os/environment.h"
#include "launcher/cli/subcommands.h"
#include "launcher/doctor/questions.h"
#include "launcher/supervisor/leader/launch.h"
#include "launcher/supervisor/node/guard.h"

// guard() must come first: it forks, and there must not be any thread yet. The guard process
// returns the exit code; the agent continues with run_agent().
namespace lockstep::cli {

void add_agent(CLI::App& app, Call& call) {
  auto from_stdin = std::make_shared<bool>(false);
  CLI::App* agent = app.add_subcommand("agent",
                                       "Join a run as its agent on this node\n"
                                       "\n"
                                       "Usage:\n"
                                       "  lockstep agent [--stdin]\n"
                                       "\n"
                                       "For internal use: lockstep run starts agents on the "
                                       "other nodes through srun or ssh.");
  agent->group("");
  agent->add_flag("--stdin", *from_stdin, "Read the rendezvous from standard input")->group("Help");
  agent->callback([from_stdin, &call] {
    const auto code = supervisor::guard();
    call.exit_code =
        code ? *code : supervisor::run_agent(os::environment(), *from_stdin, doctor::answer);
  });
}

}  // namespace lockstep::cli
