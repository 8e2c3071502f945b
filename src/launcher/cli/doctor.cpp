// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <memory>

#include "common/os/environment.h"
#include "common/os/host.h"
#include "launcher/cli/host_environment.h"
#include "launcher/cli/subcommands.h"
#include "launcher/doctor/examine.h"
#include "launcher/doctor/report.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

constexpr const char* kDescription =
    "Check everything that multi-node training depends on\n"
    "\n"
    "Usage:\n"
    "  lockstep doctor [OPTIONS]\n"
    "\n"
    "Inside a Slurm job it checks all nodes of the job in parallel, with one srun;\n"
    "otherwise it checks this machine. Each line shows a verdict (ok, warning or\n"
    "broken), the value with its source, and a command to try. The check changes\n"
    "nothing. Its output has no secrets in it and can be pasted into a ticket.";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep doctor\n"
    "  salloc -N 4 lockstep doctor\n"
    "  lockstep doctor --json >doctor.json\n"
    "\n"
    "Exit codes:\n"
    "  0    ok, possibly with warnings\n"
    "  1    something is broken\n";

struct DoctorOptions {
  bool is_json = false;
  bool is_quick = false;
  unsigned patience = 20;
};

// Invalid Slurm variables are a finding, not a reason to stop: everything else is still checked.
plan::HostEnvironment look_around(std::string& fault) {
  try {
    return read_host_environment();
  } catch (const Error& error) {
    fault = error.what();
    plan::HostEnvironment here;
    here.environment = os::environment();
    here.node = os::host_name();
    return here;
  }
}

// Findings are the result, so stdout has all of them. The exit code is 1 only for findings that
// would make a run fail; warnings do not fail a script that checks a node.
int examine(const DoctorOptions& options) {
  std::string fault;
  const plan::HostEnvironment here = look_around(fault);
  doctor::Facts facts = doctor::examine(here,
                                        {.version = LOCKSTEP_VERSION,
                                         .is_quick = options.is_quick,
                                         .patience = std::chrono::seconds(options.patience)});
  if (!fault.empty()) {
    facts.slurm.fault_of_job = fault;
  }
  const doctor::Findings findings = doctor::check_all(facts);
  fmt::print("{}",
             options.is_json ? doctor::to_json(facts, findings) : doctor::to_text(facts, findings));
  return doctor::worst_of(findings) == doctor::Severity::Broken ? 1 : 0;
}

}  // namespace

void add_doctor(CLI::App& app, Call& call) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* doctor = app.add_subcommand("doctor", kDescription);
  doctor->footer(kFooter);
  doctor->add_flag("--quick", options->is_quick, "Start no other programs, except srun in a job")
      ->group("Options");
  doctor->add_flag("--json", options->is_json, "Print all collected values as JSON")
      ->group("Options");
  doctor->add_option("--patience", options->patience, "Maximum time to wait for nodes, in seconds")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->group("Options");
  doctor->callback([options, &call] { call.exit_code = examine(*options); });
}

}  // namespace lockstep::cli
