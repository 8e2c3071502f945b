// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <memory>
#include <string>

#include "agent/agent.h"
#include "agent/guard.h"
#include "agent/placement.h"
#include "cli/subcommands.h"
#include "cli/surroundings.h"
#include "lockstep/error.h"
#include "plan/plan.h"
#include "plan/plan_json.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Start a gang of workers on this machine and watch over it\n"
    "\n"
    "Usage:\n"
    "  lockstep run [OPTIONS] [--] PROGRAM [ARGS...]\n"
    "\n"
    "PROGRAM is any distributed training program: *.py runs under python3, anything\n"
    "else is executed. What follows it is passed on untouched. Options may be spelt\n"
    "with _ for -, as torchrun does.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep run --nproc-per-node 2 build/bin/mnist -s ddp --epochs 2\n"
    "  lockstep run --nproc-per-node auto --run-dir runs/first -- train.py --lr 0.1\n"
    "\n"
    "Exit codes:\n"
    "  0      every worker left with 0\n"
    "  N      the code of the first worker that failed\n"
    "  128+S  the first worker that failed died by signal S (137: SIGKILL)\n"
    "  75     stopped at a checkpoint; the same command goes on from there\n"
    "  130    interrupted (Ctrl-C), 143 terminated, and the workers did not say 75\n"
    "  64     what was asked cannot be done; 69 a port or an address is not to be had\n"
    "\n"
    "Files:\n"
    "  RUN/plan.json                  what was started\n"
    "  RUN/logs/attempt-0/rank-0.log  what a worker said, stdout and stderr\n"
    "  RUN/failure.json               why the run failed, if it did\n"
    "  RUN/events, RUN/checkpoints    what the workers write\n";

struct Wishes {
  plan::Request request;
  bool is_dry = false;
  bool is_json = false;
};

int start(Wishes wishes, const Call& call) {
  if (wishes.is_json && !wishes.is_dry) {
    throw Error(ExitCode::Usage, "cannot print a run as JSON, only its plan")
        .fact("asked", "--json without --dry-run", "command line")
        .hint("--dry-run --json; a run keeps its plan in RUN/plan.json");
  }
  plan::Surroundings here = read_surroundings();
  here.command_time = call.command_time;
  wishes.request.program = call.program;
  const plan::LaunchPlan plan = plan::make_plan(wishes.request, here);
  agent::require_program(plan, here.environment);
  if (wishes.is_dry) {
    fmt::print("{}", wishes.is_json ? plan::to_json(plan) : plan::describe(plan));
    return 0;
  }
  if (const auto code = agent::guard()) {
    return *code;
  }
  return agent::run(plan, 0, here.environment);
}

template <typename T>
CLI::Option* add(CLI::App& app, const std::string& name, T& value, const std::string& text) {
  return app.add_option(name, value, text)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

}  // namespace

void add_run(CLI::App& app, Call& call) {
  auto wishes = std::make_shared<Wishes>();
  plan::Request& request = wishes->request;
  CLI::App* run = app.add_subcommand("run", kDescription);
  run->footer(kFooter);
  run->prefix_command();

  add(*run,
      "--nproc-per-node",
      request.nproc_per_node,
      "Workers on this machine: a number, cpu (one per granted core), gpu (one per GPU) or auto "
      "(gpu where there is one, else cpu)")
      ->type_name("COUNT")
      ->default_str("1")
      ->group("Workers");
  run->add_option("--env", request.env, "A variable for every worker; may be given again")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group("Workers");
  add(*run, "--master-addr", request.master_addr, "Address at which rank 0 listens")
      ->type_name("HOST")
      ->default_str("127.0.0.1")
      ->group("Meeting point");
  add(*run, "--master-port", request.master_port, "Port at which rank 0 listens")
      ->type_name("PORT")
      ->default_str("a free one")
      ->group("Meeting point");
  add(*run, "--run-dir", request.run_dir, "Where plan, logs and checkpoints of this run lie")
      ->type_name("DIR")
      ->default_str("runs/PROGRAM-TIME-ID")
      ->group("Supervision");
  add(*run,
      "--grace",
      request.grace,
      "How long workers may take to leave after SIGTERM before they are killed")
      ->type_name("SECONDS")
      ->default_str("30")
      ->group("Supervision");
  run->add_flag("--dry-run",
                wishes->is_dry,
                "Print the plan with the source of every value; start nothing")
      ->group("Help");
  run->add_flag("--json", wishes->is_json, "With --dry-run: the plan as plan.json has it")
      ->group("Help");
  run->callback([wishes, &call] { call.exit_code = start(*wishes, call); });
}

}  // namespace lockstep::cli
