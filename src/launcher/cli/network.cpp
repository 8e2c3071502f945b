// SPDX-License-Identifier: Apache-2.0
#include "common/os/network.h"

#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "launcher/cli/host_environment.h"
#include "launcher/cli/subcommands.h"
#include "launcher/doctor/job_rendezvous.h"
#include "launcher/doctor/survey.h"
#include "launcher/plan/plan.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Find a network that connects all nodes of this job\n"
    "\n"
    "Usage:\n"
    "  lockstep network [OPTIONS]\n"
    "\n"
    "For batch scripts that start other launchers. Prints shell commands that export\n"
    "MASTER_ADDR, MASTER_PORT and the network interface for NCCL, Gloo, Horovod and\n"
    "Open MPI, with the values that lockstep run would use. Call it in the batch\n"
    "script before srun or mpirun. Variables that are already set keep their values.";

constexpr const char* kFooter =
    "Examples:\n"
    "  network=$(lockstep network) || exit\n"
    "  eval \"$network\"\n"
    "  srun bash -c 'torchrun --nnodes $SLURM_NNODES --node_rank $SLURM_NODEID \\\n"
    "    --master_addr $MASTER_ADDR --master_port $MASTER_PORT train.py'\n"
    "\n"
    "Exit codes:\n"
    "  0    success\n"
    "  64   called inside a job step with several tasks\n"
    "  69   a node did not respond, or no network connects all nodes; stdout is empty\n";

struct NetworkOptions {
  std::vector<std::string> interfaces;
  bool is_json = false;
};

// stdout is evaluated by a shell, so everything for people is on stderr, and stdout is written only
// when all values are known: an error leaves it empty.
int find(const NetworkOptions& options) {
  const plan::HostEnvironment here = read_host_environment();
  const plan::LaunchPlan plan = doctor::plan_of_survey(here, "lockstep network");
  const doctor::JobRendezvous rendezvous =
      doctor::choose_rendezvous(plan, here.environment, options.interfaces);
  const doctor::OrderedVariables variables = doctor::variables_of(rendezvous, here.environment);
  fmt::print(stderr, "lockstep: {}\n", rendezvous.reason);
  for (const std::string& line : rendezvous.details) {
    fmt::print(stderr, "lockstep:   {}\n", line);
  }
  for (const std::string& line : doctor::remarks_on(rendezvous)) {
    fmt::print(stderr, "lockstep: {}\n", line);
  }
  fmt::print(
      "{}", options.is_json ? doctor::to_json(rendezvous, variables) : doctor::to_shell(variables));
  return 0;
}

}  // namespace

void add_network(CLI::App& app, Call& call) {
  auto options = std::make_shared<NetworkOptions>();
  CLI::App* network = app.add_subcommand("network", kDescription);
  network->footer(kFooter);
  network
      ->add_option(
          "--interface", options->interfaces, "Try only this network interface; can be repeated")
      ->type_name("NAME")
      ->expected(1)
      ->group("Options");
  network->add_flag("--json", options->is_json, "Print all results as JSON")->group("Options");
  network->callback([options, &call] { call.exit_code = find(*options); });
}

}  // namespace lockstep::cli
