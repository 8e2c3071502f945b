// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

#include "cli/env_run.h"
#include "cli/job_logs.h"
#include "cli/subcommands.h"
#include "cli/submission.h"
#include "config/yaml.h"
#include "lockstep/error.h"
#include "os/environment.h"
#include "os/files.h"
#include "os/host.h"
#include "slurm/client.h"
#include "slurm/env_build.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Make what programs run in: virtual environments, container images\n"
    "\n"
    "Usage:\n"
    "  lockstep env SUBCOMMAND [OPTIONS]";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep env build -c torch.yaml\n";

constexpr const char* kBuildDescription =
    "Build a virtual environment or an Apptainer image, here or as a Slurm job\n"
    "\n"
    "Usage:\n"
    "  lockstep env build -c FILE [OPTIONS]\n"
    "\n"
    "FILE says what: modules and Python packages (Horovod too), or a definition file\n"
    "or docker:// image; docs/environments.md has all keys. The job is followed, and\n"
    "what it says shown. What fails leaves nothing that looks complete, and what\n"
    "succeeds is looked at by lockstep doctor, inside.";

constexpr const char* kBuildFooter =
    "Examples:\n"
    "  lockstep env build -c torch.yaml --dry-run\n"
    "  lockstep env build -c torch.yaml --local\n"
    "  lockstep env build -c image.yaml --submit --no-wait\n"
    "\n"
    "Exit codes:\n"
    "  0    it is built; with --no-wait, the job is submitted\n"
    "  N    the build has failed with N, and there is nothing\n"
    "  64   FILE is wrong, or something is there already\n"
    "  69   Slurm is not here, or does not answer\n"
    "  74   a file could not be read or written\n"
    "  130  left with Ctrl-C: a job goes on, a build here does not\n"
    "\n"
    "Files:\n"
    "  slurm-job-logs/NAME-JOB.out    what the job says\n"
    "  PATH/lockstep.unfinished       a virtual environment that is not whole yet\n";

struct Wishes {
  std::string file;
  bool is_local = false;
  bool is_submitted = false;
  bool is_dry = false;
  bool is_forced = false;
  bool is_left = false;
};

// The environment that the script is run or submitted with: this one, and what it must not show.
os::Environment with_secrets(os::Environment environment, const config::Node& map) {
  for (const auto& [name, value] : slurm::secrets_of_env_build(map)) {
    environment.insert_or_assign(name, value);
  }
  return environment;
}

int submit(const Wishes& wishes,
           const slurm::EnvBuild& build,
           const std::string& script,
           const os::Environment& environment) {
  const slurm::Client client(environment);
  client.need_installed();
  make_log_directories(build.job);
  const std::string id = client.submit({.script = script});
  fmt::print(stderr, "lockstep: job {} builds {}\n", id, build.path);
  if (wishes.is_left) {
    fmt::print("{}\n", id);
    return 0;
  }
  return follow_with_logs(job_named(client, id, fs::current_path()), std::nullopt)
      .value_or(static_cast<int>(ExitCode::Interrupted));
}

int build_from(const Wishes& wishes) {
  if (wishes.file.empty()) {
    throw Error(ExitCode::Usage, "cannot build without a file that says what")
        .hint("lockstep env build -c torch.yaml");
  }
  if (wishes.is_local && wishes.is_submitted) {
    throw Error(ExitCode::Usage, "cannot build both here and as a job")
        .hint("--local or --submit, one of them");
  }
  const config::Node map = config::parse_yaml(os::read_file(wishes.file), wishes.file);
  slurm::EnvBuild build = slurm::read_env_build(map);
  build.is_submitted = wishes.is_submitted || (build.is_submitted && !wishes.is_local);
  if (wishes.is_left && !build.is_submitted) {
    throw Error(ExitCode::Usage, "cannot leave a build alone that runs here")
        .fact("--no-wait", "is for jobs")
        .hint("--submit --no-wait");
  }
  const os::Environment environment = os::environment();
  slurm::choose_cache(build, environment, fs::current_path());
  const std::string script = slurm::render_env_build(
      build,
      {.maker = {.version = LOCKSTEP_VERSION, .file = wishes.file, .site = ""},
       .lockstep = os::own_executable(),
       .is_forced = wishes.is_forced});
  if (wishes.is_dry) {
    fmt::print("{}", script);
    return 0;
  }
  slurm::check_files(build, environment, wishes.is_forced);
  const os::Environment secret = with_secrets(environment, map);
  return build.is_submitted ? submit(wishes, build, script, secret) : run_script(script, secret);
}

}  // namespace

void add_env(CLI::App& app, Call& call) {
  CLI::App* env = app.add_subcommand("env", kDescription);
  env->footer(kFooter);
  env->require_subcommand(0, 1);
  auto wishes = std::make_shared<Wishes>();
  CLI::App* build = env->add_subcommand("build", kBuildDescription);
  build->footer(kBuildFooter);
  build->add_option("-c,--config", wishes->file, "What to build")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  build->add_flag("--local", wishes->is_local, "Build on this machine, whatever FILE says");
  build->add_flag("--submit", wishes->is_submitted, "Build in a Slurm job, whatever FILE says");
  build->add_flag("--dry-run", wishes->is_dry, "Print the script and do nothing");
  build->add_flag("--force", wishes->is_forced, "Replace what is there, once the new one is whole");
  build->add_flag("--no-wait", wishes->is_left, "Submit the job, print its number and leave");
  build->callback([wishes, &call] { call.exit_code = build_from(*wishes); });
}

}  // namespace lockstep::cli
