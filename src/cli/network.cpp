// SPDX-License-Identifier: Apache-2.0
#include "os/network.h"

#include <fmt/format.h>
#include <memory>
#include <string>
#include <vector>

#include "cli/subcommands.h"
#include "cli/surroundings.h"
#include "doctor/meeting_place.h"
#include "doctor/survey.h"
#include "lockstep/error.h"
#include "plan/plan.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Find the network on which all nodes of this job really talk\n"
    "\n"
    "Usage:\n"
    "  lockstep network [OPTIONS]\n"
    "\n"
    "For job scripts that start other launchers. Prints shell text that exports\n"
    "MASTER_ADDR, MASTER_PORT and the interface for NCCL, Gloo, Horovod and Open\n"
    "MPI, as `lockstep run` would set them. Call it in the batch script, before\n"
    "srun or mpirun. Variables that are set already keep their values.";

constexpr const char* kFooter =
    "Examples:\n"
    "  network=$(lockstep network) || exit\n"
    "  eval \"$network\"\n"
    "  srun bash -c 'torchrun --nnodes $SLURM_NNODES --node_rank $SLURM_NODEID \\\n"
    "    --master_addr $MASTER_ADDR --master_port $MASTER_PORT train.py'\n"
    "\n"
    "Exit codes:\n"
    "  0    found, and printed\n"
    "  64   asked from inside a step of several tasks\n"
    "  69   a node did not come, or no network connects them all; stdout is empty\n";

struct Wishes {
  std::vector<std::string> interfaces;
  bool is_json = false;
};

int find(const Wishes& wishes) {
  const plan::Surroundings here = read_surroundings();
  const plan::LaunchPlan plan = doctor::plan_of_survey(here, "lockstep network");
  const doctor::MeetingPlace place =
      doctor::find_meeting_place(plan, here.environment, wishes.interfaces);
  const doctor::OrderedVariables variables = doctor::variables_of(place, here.environment);
  fmt::print(stderr, "lockstep: {}\n", place.reason);
  for (const std::string& line : place.details) {
    fmt::print(stderr, "lockstep:   {}\n", line);
  }
  for (const std::string& line : doctor::remarks_on(place)) {
    fmt::print(stderr, "lockstep: {}\n", line);
  }
  fmt::print("{}",
             wishes.is_json ? doctor::to_json(place, variables) : doctor::to_shell(variables));
  return 0;
}

}  // namespace

void add_network(CLI::App& app, Call& call) {
  auto wishes = std::make_shared<Wishes>();
  CLI::App* network = app.add_subcommand("network", kDescription);
  network->footer(kFooter);
  network
      ->add_option(
          "--interface", wishes->interfaces, "Use no other interface; may be given several times")
      ->type_name("NAME")
      ->expected(1)
      ->group("Options");
  network->add_flag("--json", wishes->is_json, "Print everything that was found as JSON")
      ->group("Options");
  network->callback([wishes, &call] { call.exit_code = find(*wishes); });
}

}  // namespace lockstep::cli
