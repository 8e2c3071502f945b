// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "common/os/files.h"
#include "common/os/host.h"
#include "launcher/cli/jobs/env_run.h"
#include "launcher/cli/jobs/submission.h"
#include "launcher/cli/runs/job_logs.h"
#include "launcher/cli/subcommands.h"
#include "launcher/config/yaml.h"
#include "launcher/slurm/client.h"
#include "launcher/slurm/env_build.h"
#include "lockstep/error.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription =
    "Build virtual environments and container images\n"
    "\n"
    "Usage:\n"
    "  lockstep env SUBCOMMAND [OPTIONS]";

constexpr const char* kFooter =
    "Examples:\n"
    "  lockstep env build -c torch.yaml\n";

constexpr const char* kBuildDescription =
    "Build a virtual environment or an Apptainer image, locally or as a Slurm job\n"
    "\n"
    "Usage:\n"
    "  lockstep env build -c FILE [OPTIONS]\n"
    "\n"
    "FILE describes the build: modules and Python packages (also Horovod), or a\n"
    "definition file or docker:// image; docs/environments.md lists all keys. If the\n"
    "build is a Slurm job, its output is shown. A failed build never leaves a target\n"
    "that looks complete. lockstep doctor runs inside every successful build.";

constexpr const char* kBuildFooter =
    "Examples:\n"
    "  lockstep env build -c torch.yaml --dry-run\n"
    "  lockstep env build -c torch.yaml --local\n"
    "  lockstep env build -c image.yaml --submit --no-wait\n"
    "\n"
    "Exit codes:\n"
    "  0    the build succeeded; with --no-wait, the job was submitted\n"
    "  N    the build failed with exit code N and left nothing\n"
    "  64   invalid FILE, or the target already exists\n"
    "  69   Slurm is not installed or does not respond\n"
    "  74   a file could not be read or written\n"
    "  130  interrupted with Ctrl-C: a job continues, a local build stops\n"
    "\n"
    "Files:\n"
    "  slurm-job-logs/NAME-JOBID.out  output of the job\n"
    "  PATH/lockstep.unfinished       marks an incomplete virtual environment\n";

struct EnvOptions {
  std::string file;
  bool is_local = false;
  bool is_submitted = false;
  bool is_dry = false;
  bool is_forced = false;
  bool is_left = false;
};

// The environment of the script: this one, plus the secrets that the script must not contain. Slurm
// stores a copy of a batch script, and users share them. Secrets therefore travel in the
// environment of sbatch, which Slurm passes to the job.
os::Environment with_secrets(os::Environment environment, const config::TreeNode& map) {
  for (const auto& [name, value] : slurm::secrets_of_env_build(map)) {
    environment.insert_or_assign(name, value);
  }
  return environment;
}

// stdout has the job ID only with --no-wait, for scripts; all messages are on stderr.
int submit(const EnvOptions& options,
           const slurm::EnvBuild& build,
           const std::string& script,
           const os::Environment& environment) {
  const slurm::Client client(environment);
  client.need_installed();
  make_log_directories(build.job);
  const std::string id = client.submit({.script = script});
  fmt::print(stderr, "lockstep: job {} builds {}\n", id, build.path);
  if (options.is_left) {
    fmt::print("{}\n", id);
    return 0;
  }
  return follow_with_logs(job_named(client, id, fs::current_path()), std::nullopt)
      .value_or(static_cast<int>(ExitCode::Interrupted));
}

// The checks come after --dry-run: a script can be printed on a machine that lacks the files.
// --local and --submit override the file.
int build_from(const EnvOptions& options) {
  if (options.file.empty()) {
    throw Error(ExitCode::Usage, "no build file given").hint("lockstep env build -c torch.yaml");
  }
  if (options.is_local && options.is_submitted) {
    throw Error(ExitCode::Usage, "--local and --submit contradict each other")
        .hint("use one of the two");
  }
  const config::TreeNode map = config::parse_yaml(os::read_file(options.file), options.file);
  slurm::EnvBuild build = slurm::read_env_build(map);
  build.is_submitted = options.is_submitted || (build.is_submitted && !options.is_local);
  if (options.is_left && !build.is_submitted) {
    throw Error(ExitCode::Usage, "--no-wait requires a Slurm job")
        .fact("found", "a build on this machine")
        .hint("--submit --no-wait");
  }
  const os::Environment environment = os::environment();
  slurm::choose_cache(build, environment, fs::current_path());
  const std::string script = slurm::render_env_build(
      build,
      {.maker = {.version = LOCKSTEP_VERSION, .file = options.file, .site = ""},
       .lockstep = os::own_executable(),
       .is_forced = options.is_forced});
  if (options.is_dry) {
    fmt::print("{}", script);
    return 0;
  }
  slurm::check_files(build, environment, options.is_forced);
  const os::Environment secret = with_secrets(environment, map);
  return build.is_submitted ? submit(options, build, script, secret) : run_script(script, secret);
}

}  // namespace

void add_env(CLI::App& app, Call& call) {
  CLI::App* env = app.add_subcommand("env", kDescription);
  env->footer(kFooter);
  env->require_subcommand(0, 1);
  auto options = std::make_shared<EnvOptions>();
  CLI::App* build = env->add_subcommand("build", kBuildDescription);
  build->footer(kBuildFooter);
  build->add_option("-c,--config", options->file, "File that describes the build")
      ->type_name("FILE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  build->add_flag("--local", options->is_local, "Build on this machine; overrides FILE");
  build->add_flag("--submit", options->is_submitted, "Build in a Slurm job; overrides FILE");
  build->add_flag("--dry-run", options->is_dry, "Print the build script and do nothing else");
  build->add_flag(
      "--force", options->is_forced, "Replace an existing target if the build succeeds");
  build->add_flag("--no-wait", options->is_left, "Submit the job, print its job id and exit");
  build->callback([options, &call] { call.exit_code = build_from(*options); });
}

}  // namespace lockstep::cli
