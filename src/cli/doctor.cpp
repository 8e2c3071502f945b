// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <memory>

#include "cli/subcommands.h"
#include "cli/surroundings.h"
#include "doctor/examine.h"
#include "doctor/report.h"
#include "lockstep/error.h"
#include "os/environment.h"
#include "os/host.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Look at everything that training on many nodes depends on\n"
    "\n"
    "Usage:\n"
    "  lockstep doctor [OPTIONS]\n"
    "\n"
    "In a job it looks at all of its nodes at once, started by one srun; elsewhere\n"
    "at this machine. Each line has a verdict (ok, warning, broken), what was found\n"
    "and from where, and what to type. It changes nothing, and has no secrets in\n"
    "it: paste it into a ticket.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep doctor\n"
    "  salloc -N 4 lockstep doctor\n"
    "  lockstep doctor --json >doctor.json\n"
    "\n"
    "Exit codes:\n"
    "  0    all is ok, or there are warnings only\n"
    "  1    something is broken\n";

struct Wishes {
  bool is_json = false;
  bool is_quick = false;
  unsigned patience = 20;
};

// What Slurm's variables say may be just what is wrong; then the rest is looked at all the same.
plan::Surroundings look_around(std::string& fault) {
  try {
    return read_surroundings();
  } catch (const Error& error) {
    fault = error.what();
    plan::Surroundings here;
    here.environment = os::environment();
    here.node = os::host_name();
    return here;
  }
}

int examine(const Wishes& wishes) {
  std::string fault;
  const plan::Surroundings here = look_around(fault);
  doctor::Facts facts = doctor::examine(here,
                                        {.version = LOCKSTEP_VERSION,
                                         .is_quick = wishes.is_quick,
                                         .patience = std::chrono::seconds(wishes.patience)});
  if (!fault.empty()) {
    facts.slurm.fault_of_job = fault;
  }
  const doctor::Findings findings = doctor::check_all(facts);
  fmt::print("{}",
             wishes.is_json ? doctor::to_json(facts, findings) : doctor::to_text(facts, findings));
  return doctor::worst_of(findings) == doctor::Verdict::Broken ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& app, Call& call) {
  auto wishes = std::make_shared<Wishes>();
  CLI::App* doctor = app.add_subcommand("doctor", kDescription);
  doctor->footer(kFooter);
  doctor->add_flag("--quick", wishes->is_quick, "Start no other program (but srun, in a job)")
      ->group("Options");
  doctor->add_flag("--json", wishes->is_json, "Print every value that was found as JSON")
      ->group("Options");
  doctor
      ->add_option("--patience", wishes->patience, "How long to wait for nodes to come, in seconds")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group("Options");
  doctor->callback([wishes, &call] { call.exit_code = examine(*wishes); });
}

}  // namespace lockstep::cli
