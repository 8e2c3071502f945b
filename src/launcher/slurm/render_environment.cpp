// SPDX-License-Identifier: Apache-2.0
//
// The setup in the order in which each part can depend on the previous ones: modules provide
// Python, variables can refer to paths of modules, and an environment is activated on top of both.
#include <fmt/format.h>

#include "launcher/slurm/batch_script.h"
#include "launcher/slurm/shell_text.h"

namespace lockstep::slurm {
namespace {

// One `module load` per line: the message then names the module that failed. `module` reports
// errors by its exit status only in Lmod and in recent versions of Environment Modules.
std::string render_modules(const Job& job) {
  if (job.modules.empty()) {
    return "";
  }
  std::string text = fmt::format("\n# Modules\n{}", kFindModuleSystem);
  text += "type module >/dev/null 2>&1 || fail \"no module system on $(hostname)\"\n";
  text += job.is_module_purge ? "module purge\n" : "";
  for (const std::string& directory : job.module_use) {
    text += fmt::format("module use {} || fail {}\n",
                        in_quotes(directory),
                        in_quotes("no such module directory: " + directory));
  }
  for (const std::string& name : job.modules) {
    text += fmt::format("module load {} || fail {}\n",
                        in_quotes(name),
                        in_quotes("no module " + name + "; see: module avail"));
  }
  return text;
}

// Secrets are passed through the environment of sbatch (--export=ALL, the default) and are never
// written to the script, which Slurm stores. The expansion with :? ends the job
// with a message if the variable did not arrive.
std::string render_variables(const Job& job) {
  if (job.variables.empty() && job.secrets.empty()) {
    return "";
  }
  std::string text = "\n# Variables\n";
  for (const auto& [name, value] : job.variables) {
    text += fmt::format("export {}={}\n", name, in_quotes(value));
  }
  for (const std::string& name : job.secrets) {
    text += fmt::format(": \"${{{0}:?is not in this script; export it before sbatch}}\"\n", name);
  }
  return text;
}

// The test gives a better message than `source`, whose failure in bash would name only the file.
std::string render_venv(const Job& job) {
  const std::string activate = job.venv + (job.venv.ends_with('/') ? "" : "/") + "bin/activate";
  return fmt::format(
      "\n# Python virtual environment\n"
      "[[ -r {0} ]] || fail {1}\n"
      "source {0} || fail {2}\n",
      in_quotes(activate),
      in_quotes("no virtual environment: " + job.venv),
      in_quotes("cannot activate " + job.venv));
}

// "conda activate" is a shell function that only an interactive shell defines; the hook defines it
// here.
std::string render_conda(const Job& job) {
  const std::string name = in_quotes(job.conda_env);
  const std::string message = in_quotes("cannot activate the conda environment " + job.conda_env);
  if (!job.conda_activate.empty()) {
    return fmt::format(
        "\n# Conda environment\n"
        "source {} {} || fail {}\n",
        in_quotes(job.conda_activate),
        name,
        message);
  }
  return fmt::format(
      "\n# Conda environment\n"
      "command -v conda >/dev/null || fail 'no conda in PATH; set conda_activate to its "
      "bin/activate'\n"
      "eval \"$(conda shell.bash hook)\"\n"
      "conda activate {} || fail {}\n",
      name,
      message);
}

// Both names of the variable: each runtime prefers its own.
std::string render_container(const Job& job) {
  std::string text = fmt::format(
      "\n# Container\n"
      "command -v {0} >/dev/null || fail \"no {0} on $(hostname)\"\n"
      "[[ -e {1} ]] || fail {2}\n",
      job.container_runtime,
      in_quotes(job.image),
      in_quotes("no image " + job.image));
  if (!job.container_cache.empty()) {
    text += fmt::format("export APPTAINER_CACHEDIR={0} SINGULARITY_CACHEDIR={0}\n",
                        in_quotes(job.container_cache));
  }
  return text;
}

}  // namespace

std::string render_environment(const Job& job) {
  std::string text = render_modules(job) + render_variables(job);
  switch (job.environment) {
    case EnvironmentKind::None:
    case EnvironmentKind::Modules:
      break;
    case EnvironmentKind::Venv:
      text += render_venv(job);
      break;
    case EnvironmentKind::Conda:
      text += render_conda(job);
      break;
    case EnvironmentKind::Apptainer:
      text += render_container(job);
      break;
  }
  return text;
}

}  // namespace lockstep::slurm
