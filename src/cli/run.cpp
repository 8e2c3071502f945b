// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <regex>
#include <string>

#include "agent/agent.h"
#include "agent/guard.h"
#include "agent/placement.h"
#include "agent/simulate.h"
#include "base/text.h"
#include "cli/beside.h"
#include "cli/pet_variables.h"
#include "cli/run_options.h"
#include "cli/subcommands.h"
#include "cli/surroundings.h"
#include "lockstep/error.h"
#include "os/command.h"
#include "os/files.h"
#include "os/process.h"
#include "plan/plan.h"
#include "plan/plan_json.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Start a gang of workers and watch over it: here, in a Slurm job, over ssh\n"
    "\n"
    "Usage:\n"
    "  {0} [OPTIONS] [--] PROGRAM [ARGS...]\n"
    "\n"
    "PROGRAM is any distributed training program: *.py runs under python3, anything\n"
    "else is executed. What follows it is passed on untouched. The options are those\n"
    "of torchrun, horovodrun and deepspeed; they may be spelt with _ for -, and\n"
    "PET_NNODES and the like stand for torchrun's. Inside a Slurm job, or under srun\n"
    "or mpirun, none is needed: nodes and workers are what was granted.";

constexpr const char* kFooter =
    "Examples:\n"
    "  {0} --nproc-per-node 2 build/bin/mnist -s ddp --epochs 2\n"
    "  salloc -N 2 --gpus-per-node 4 {0} train.py --lr 0.1\n"
    "  {0} -np 6 -H host1:4,host2:2 python train.py\n"
    "  {0} --nnodes 2 --node-rank 0 --master-addr host1 train.py\n"
    "\n"
    "Exit codes:\n"
    "  0      every worker left with 0\n"
    "  N      the code of the first worker that failed\n"
    "  128+S  the first worker that failed died by signal S (137: SIGKILL)\n"
    "  75     stopped at a checkpoint; the same command goes on from there\n"
    "  130    interrupted (Ctrl-C), 143 terminated, and the workers did not say 75\n"
    "  64     what was asked cannot be done; 69 a port, a node or a network is not\n"
    "         to be had\n"
    "\n"
    "Files:\n"
    "  RUN/plan.json                  what was started\n"
    "  RUN/logs/attempt-0/rank-0.log  what a worker said, stdout and stderr\n"
    "  RUN/failure.json               why the run failed, if it did\n"
    "  RUN/requeue.json               how often --requeue has put the job back\n"
    "  RUN/events, RUN/checkpoints    what the workers write\n"
    "  RUN/tensorboard                the same for TensorBoard, with --tensorboard\n";

int simulate(const Wishes& wishes, const Call& call) {
  constexpr int64_t kMost = 100'000;
  const std::string& text = wishes.simulate->text;
  const size_t cross = text.find('x');
  const auto read = [](std::string_view digits) {
    const auto number = find_integer(digits);
    return number && *number >= 1 && *number <= kMost ? static_cast<int>(*number) : 0;
  };
  const int nodes = read(std::string_view(text).substr(0, cross));
  const int workers =
      cross == std::string::npos ? 0 : read(std::string_view(text).substr(cross + 1));
  if (nodes == 0 || workers == 0) {
    throw Error(ExitCode::Usage, fmt::format("cannot understand --simulate '{}'", text))
        .fact("expected", "NODESxWORKERS")
        .fact("found", fmt::format("'{}'", text), "command line")
        .hint("--simulate 64x8");
  }
  if (!call.program.empty()) {
    throw Error(ExitCode::Usage, "cannot simulate a program, only its launch")
        .fact("asked",
              fmt::format("--simulate {} with {}", text, call.program.front()),
              "command line")
        .hint(fmt::format("--simulate {}, alone", text));
  }
  return agent::simulate(nodes, workers);
}

// deepspeed looks for its host file here when nobody names one.
constexpr const char* kDeepspeedHostfile = "/job/hostfile";

void read_hostfile(plan::Request& request) {
  const bool names_hosts = request.hosts || request.hostfile;
  if (request.dialect == plan::Dialect::Deepspeed && !names_hosts &&
      fs::exists(kDeepspeedHostfile)) {
    request.hostfile =
        plan::Asked{.text = kDeepspeedHostfile, .source = "command line", .flag = ""};
  }
  if (!request.hostfile) {
    return;
  }
  if (!fs::is_regular_file(request.hostfile->text)) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot read the host file '{}': no such file", request.hostfile->text))
        .fact("asked", "--hostfile " + request.hostfile->text, "command line")
        .hint("-H host1:4,host2:4 names the hosts without a file");
  }
  request.hostfile_text = os::read_file(request.hostfile->text);
}

// Programs of torch.distributed.launch's time take their local rank as an argument: "--local_rank"
// before torch 2, "--local-rank" since; most take the old spelling or both.
void read_local_rank_argument(plan::Request& request) {
  if (request.program.empty() || !request.program.front().ends_with(".py") ||
      !fs::is_regular_file(request.program.front()) || !os::is_readable(request.program.front())) {
    return;
  }
  const std::string text = os::read_file(request.program.front());
  const auto declares = [&text](std::string_view option) {
    const std::regex pattern(fmt::format(R"(add_argument\([^)]*['"]{}['"])", option));
    return std::regex_search(text, pattern);
  };
  if (text.find("--local") == std::string::npos) {
    return;
  }
  const bool has_old = declares("--local_rank");
  const bool has_new = declares("--local-rank");
  request.is_local_rank_taken = has_old || has_new;
  request.is_local_rank_dashed = has_new && !has_old;
}

plan::LaunchPlan read_plan(Wishes& wishes, const Call& call, const plan::Surroundings& here) {
  plan::Request& request = wishes.request;
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

int start(Wishes wishes, const Call& call) {
  if (wishes.simulate) {
    return simulate(wishes, call);
  }
  if (wishes.is_json && !wishes.is_dry) {
    throw Error(ExitCode::Usage, "cannot print a run as JSON, only its plan")
        .fact("asked", "--json without --dry-run", "command line")
        .hint("--dry-run --json; a run keeps its plan in RUN/plan.json");
  }
  plan::Surroundings here = read_surroundings();
  here.command_time = call.command_time;
  const plan::LaunchPlan plan = read_plan(wishes, call, here);
  agent::require_program(plan.command, here.environment);
  if (wishes.is_dry) {
    fmt::print("{}", wishes.is_json ? plan::to_json(plan) : plan::describe(plan));
    return 0;
  }
  if (wishes.is_verbose) {
    fmt::print(stderr, "{}", plan::describe(plan));
  }
  if (wishes.has_dashboard) {
    start_dashboard(plan, here.environment);
  }
  std::optional<os::Child> tensorboard;
  if (wishes.tensorboard) {
    tensorboard = start_tensorboard(plan, here.environment, *wishes.tensorboard);
  }
  // A task becomes the worker itself; whoever started it watches over it.
  if (plan.way.value != plan::Way::Task) {
    const auto code = agent::guard([&tensorboard] {
      if (tensorboard) {
        finish_tensorboard(*tensorboard);
      }
    });
    if (code) {
      return *code;
    }
  }
  return agent::run(plan, here.environment);
}

void declare(CLI::App& app, Call& call, plan::Dialect dialect) {
  auto wishes = std::make_shared<Wishes>();
  wishes->request.dialect = dialect;
  app.description(fmt::format(fmt::runtime(kDescription), plan::command_of(dialect)));
  app.footer(fmt::format(fmt::runtime(kFooter), plan::command_of(dialect)));
  app.prefix_command();
  add_run_options(app, *wishes);
  app.callback([wishes, &call] { call.exit_code = start(*wishes, call); });
}

}  // namespace

void add_run(CLI::App& app, Call& call) {
  declare(*app.add_subcommand("run"), call, plan::Dialect::Lockstep);
}

void become_run(CLI::App& app, Call& call, plan::Dialect dialect) {
  declare(app, call, dialect);
}

}  // namespace lockstep::cli
