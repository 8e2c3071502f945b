// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

#include "common/base/text.h"
#include "common/contract/launch_plan.h"
#include "common/os/command.h"
#include "common/os/files.h"
#include "common/os/process.h"
#include "launcher/cli/host_environment.h"
#include "launcher/cli/run/pet_variables.h"
#include "launcher/cli/run/run_options.h"
#include "launcher/cli/run/viewers.h"
#include "launcher/cli/subcommands.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/leader/launch.h"
#include "launcher/supervisor/leader/simulate.h"
#include "launcher/supervisor/node/guard.h"
#include "launcher/supervisor/node/placement.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Run a distributed training program: locally, in a Slurm job or over ssh\n"
    "\n"
    "Usage:\n"
    "  {0} [OPTIONS] [--] PROGRAM [ARGS...]\n"
    "\n"
    "Starts one process of PROGRAM per worker, supervises the workers, and stops all\n"
    "of them if one fails. A PROGRAM named *.py runs under python3, any other program\n"
    "is executed directly. ARGS are passed to it unchanged.\n"
    "\n"
    "Inside a Slurm job, or under srun or mpirun, no options are needed: the run uses\n"
    "the allocated nodes and tasks. The options of torchrun, horovodrun and deepspeed\n"
    "are accepted, with - or _ in their names. Environment variables such as\n"
    "PET_NNODES have the same meaning as for torchrun.";

constexpr const char* kFooter =
    "Examples:\n"
    "  {0} --nproc-per-node 2 build/bin/mnist -s ddp --epochs 2\n"
    "  salloc -N 2 --gpus-per-node 4 {0} train.py --lr 0.1\n"
    "  {0} -np 6 -H host1:4,host2:2 python train.py\n"
    "  {0} --nnodes 2 --node-rank 0 --master-addr host1 train.py\n"
    "\n"
    "Exit codes:\n"
    "  0      every worker exited with code 0\n"
    "  N      exit code of the first worker that failed\n"
    "  128+S  the first worker that failed was killed by signal S (137: SIGKILL)\n"
    "  75     stopped after saving a checkpoint; the same command resumes the run\n"
    "  130    interrupted with Ctrl-C, unless the workers exited with 75\n"
    "  143    terminated by SIGTERM, unless the workers exited with 75\n"
    "  64     invalid or conflicting options\n"
    "  69     a port, node or network is unavailable\n"
    "\n"
    "Files:\n"
    "  RUN                            run directory, set with --run-dir\n"
    "  RUN/plan.json                  launch plan: all settings of the run\n"
    "  RUN/logs/attempt-0/rank-0.log  stdout and stderr of one worker\n"
    "  RUN/failure.json               failure report, if the run failed\n"
    "  RUN/requeue.json               number of requeues so far (--requeue)\n"
    "  RUN/events, RUN/checkpoints    events and checkpoints of the workers\n"
    "  RUN/tensorboard                metrics for TensorBoard (--tensorboard)\n";

int simulate(const RunOptions& options, const Call& call) {
  constexpr int64_t kMaximum = 100'000;
  const std::string& text = options.simulate->text;
  const size_t cross = text.find('x');
  const auto read = [](std::string_view digits) {
    const auto number = find_integer(digits);
    return number && *number >= 1 && *number <= kMaximum ? static_cast<int>(*number) : 0;
  };
  const int nodes = read(std::string_view(text).substr(0, cross));
  const int workers =
      cross == std::string::npos ? 0 : read(std::string_view(text).substr(cross + 1));
  if (nodes == 0 || workers == 0) {
    throw Error(ExitCode::Usage, fmt::format("invalid value '{}' for --simulate", text))
        .fact("expected", "NODESxWORKERS")
        .fact("found", fmt::format("'{}'", text), "command line")
        .hint("--simulate 64x8");
  }
  if (!call.program.empty()) {
    throw Error(ExitCode::Usage, "--simulate does not run a program")
        .fact("requested",
              fmt::format("--simulate {} with {}", text, call.program.front()),
              "command line")
        .hint(fmt::format("--simulate {}, without a program", text));
  }
  return supervisor::simulate(nodes, workers);
}

// The default host file of deepspeed. deepspeed reads /job/hostfile if it exists, and otherwise
// uses the local machine. Only this dialect does the same.
constexpr const char* kDeepspeedHostfile = "/job/hostfile";

void read_hostfile(plan::Request& request) {
  const bool names_hosts = request.hosts || request.hostfile;
  if (request.dialect == plan::Dialect::Deepspeed && !names_hosts &&
      fs::exists(kDeepspeedHostfile)) {
    request.hostfile =
        plan::OptionValue{.text = kDeepspeedHostfile, .source = "command line", .flag = ""};
  }
  if (!request.hostfile) {
    return;
  }
  if (!fs::is_regular_file(request.hostfile->text)) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot read the host file '{}': no such file", request.hostfile->text))
        .fact("requested", "--hostfile " + request.hostfile->text, "command line")
        .hint("-H host1:4,host2:4, which needs no file");
  }
  request.hostfile_text = os::read_file(request.hostfile->text);
}

// Programs written for torch.distributed.launch take their local rank as an argument: --local_rank
// before torch 2, --local-rank since then. Most programs declare the old name or both, so the new
// one is passed only to a program that declares nothing else.
void read_local_rank_argument(plan::Request& request) {
  if (request.program.empty() || !request.program.front().ends_with(".py") ||
      !fs::is_regular_file(request.program.front()) || !os::is_readable(request.program.front())) {
    return;
  }
  const std::string text = os::read_file(request.program.front());
  // Not std::regex, which recurses for each character and overflows the stack. Each character is
  // searched once: the next call begins after the end of this one.
  const auto declares = [&text](const std::string& option) {
    constexpr std::string_view kCall = "add_argument(";
    size_t at = text.find(kCall);
    while (at != std::string::npos) {
      const size_t end = std::min(text.find(')', at), text.size());
      const std::string_view call = std::string_view(text).substr(at, end - at);
      if (call.find("'" + option + "'") != std::string_view::npos ||
          call.find('"' + option + '"') != std::string_view::npos) {
        return true;
      }
      at = text.find(kCall, end);
    }
    return false;
  };
  if (text.find("--local") == std::string::npos) {
    return;
  }
  const bool has_old = declares("--local_rank");
  const bool has_new = declares("--local-rank");
  request.is_local_rank_taken = has_old || has_new;
  request.is_local_rank_dashed = has_new && !has_old;
}

// The command line has been read already, so PET_ variables fill only what is missing. horovodrun
// and deepspeed do not know these variables, and an exported PET_NNODES must not affect them.
plan::LaunchPlan read_plan(RunOptions& options,
                           const Call& call,
                           const plan::HostEnvironment& here) {
  plan::Request& request = options.request;
  request.program = call.program;
  const bool is_torch =
      request.dialect != plan::Dialect::Horovodrun && request.dialect != plan::Dialect::Deepspeed;
  if (is_torch) {
    read_pet_variables(request, here.environment);
  }
  read_hostfile(request);
  read_local_rank_argument(request);
  return plan::make_plan(request, here);
}

//   plan -> viewers -> guard (fork) -+-> guard: waits, cleans up, returns the exit code
//                                    +-> supervisor::run: leader or agent, or both
//
// Viewers start before the fork, so they are children of the guard. They outlive the leader, and
// the guard can let the TensorBoard writer finish after the last event was written. Code before the
// fork must not create a thread.
int start(RunOptions options, const Call& call) {
  if (options.simulate) {
    return simulate(options, call);
  }
  if (options.is_json && !options.is_dry) {
    throw Error(ExitCode::Usage, "--json requires --dry-run")
        .fact("requested", "--json without --dry-run", "command line")
        .hint("--dry-run --json; the plan of a run is in RUN/plan.json");
  }
  plan::HostEnvironment here = read_host_environment();
  here.command_time = call.command_time;
  const plan::LaunchPlan plan = read_plan(options, call, here);
  supervisor::require_program(plan.command, here.environment);
  const plan::LaunchPlan shown = contract::without_secrets(plan);
  if (options.is_dry) {
    fmt::print("{}", options.is_json ? contract::to_json(shown) : plan::describe(shown));
    return 0;
  }
  if (options.is_verbose) {
    fmt::print(stderr, "{}", plan::describe(shown));
  }
  if (options.has_dashboard) {
    start_dashboard(plan, here.environment);
  }
  std::optional<os::Child> tensorboard;
  if (options.tensorboard) {
    tensorboard = start_tensorboard(plan, here.environment, *options.tensorboard);
  }
  // In launch mode Task this process becomes the worker itself and is supervised by the launcher
  // that started it. In all other modes a guard process cleans up if this process is killed.
  if (plan.mode.value != plan::LaunchMode::Task) {
    const auto code = supervisor::guard([&tensorboard] {
      if (tensorboard) {
        finish_tensorboard(*tensorboard);
      }
    });
    if (code) {
      return *code;
    }
  }
  return supervisor::run(plan, here.environment);
}

void declare(CLI::App& app, Call& call, plan::Dialect dialect) {
  auto options = std::make_shared<RunOptions>();
  options->request.dialect = dialect;
  app.description(fmt::format(fmt::runtime(kDescription), plan::command_of(dialect)));
  app.footer(fmt::format(fmt::runtime(kFooter), plan::command_of(dialect)));
  app.prefix_command();
  add_run_options(app, *options);
  app.callback([options, &call] { call.exit_code = start(*options, call); });
}

}  // namespace

void add_run(CLI::App& app, Call& call) {
  declare(*app.add_subcommand("run"), call, plan::Dialect::Lockstep);
}

void become_run(CLI::App& app, Call& call, plan::Dialect dialect) {
  declare(app, call, dialect);
}

}  // namespace lockstep::cli
