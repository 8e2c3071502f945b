// SPDX-License-Identifier: Apache-2.0
//
// Scripts that build an environment completely or not at all:
//
//   venv    built in its final place, because its scripts contain their own path:
//             target -> target.lockstep-before     only with --force
//             mkdir target, lockstep.unfinished    mkdir fails if another build has started
//             install; bin/activate is hidden as lockstep.activate until the end
//             remove the marks, then the backup
//           on failure: remove target, move the backup back
//
//   image   built as image.JOBID.part and renamed
//
// The marks are files, so that a job that is killed without running its traps leaves a state that
// the next build recognizes.
#include <algorithm>
#include <fmt/format.h>

#include "launcher/slurm/env_build.h"
#include "launcher/slurm/shell_text.h"

namespace lockstep::slurm {
namespace {

constexpr const char* kTools = R"sh(
say() { printf 'lockstep env: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
)sh";

// Signals end the script, and the EXIT trap cleans up.
constexpr const char* kTraps = R"sh(trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
)sh";

// A virtual environment contains its own path, so it is built in its final location.
constexpr const char* kVenvTarget = R"sh([[ $target == /* ]] || target=$PWD/$target

# A virtual environment contains its own path, so it is built in its final
# location. Until it is complete, it has a file lockstep.unfinished and no
# bin/activate. If the build fails, it is removed and the previous environment
# is restored.
before=$target.lockstep-before
mine=
clean_up() {
  local status=$?
  trap - EXIT
  if [[ -n $mine ]]; then
    rm -rf -- "$target"
    [[ ! -e $before ]] || mv -- "$before" "$target"
    say "build failed; nothing was installed"
  fi
  exit "$status"
}
)sh";

// A killed build can have left the previous environment under its backup name.
constexpr const char* kKeepVenv = R"sh([[ -e $target || ! -e $before ]] || mv -- "$before" "$target"
[[ ! -e $target ]] || fail "$target already exists; --force replaces it"
)sh";

// Only a virtual environment is replaced.
constexpr const char* kReplaceVenv =
    R"sh([[ ! -e $target/lockstep.unfinished ]] || rm -rf -- "$target"
[[ -e $target || ! -e $before ]] || mv -- "$before" "$target"
if [[ -e $target ]]; then
  [[ -f $target/pyvenv.cfg ]] || fail "$target is not a virtual environment; not replaced"
  rm -rf -- "$before"
  mv -- "$target" "$before"
fi
)sh";

// mkdir without -p is the lock: it fails if the directory exists, atomically on every file system.
constexpr const char* kBeginVenv = R"sh(mkdir -p -- "$(dirname "$target")"
mkdir -- "$target"
mine=yes
echo "job ${SLURM_JOB_ID:-none} on $(hostname), process $$" >"$target/lockstep.unfinished"
)sh";

// The order makes the environment usable only when it is complete: bin/activate appears last, and
// jobs check for it. `mine=` then disarms the cleanup.
constexpr const char* kEndVenv = R"sh(
# Complete.
mv -- "$target/lockstep.activate" "$target/bin/activate"
rm -f -- "$target/lockstep.unfinished"
mine=
rm -rf -- "$before"
say "built $target in $((SECONDS - began)) s"
)sh";

constexpr const char* kImageTarget = R"sh(
# The image is built next to its final location and moved there when complete.
part=$image.${SLURM_JOB_ID:-$$}.part
clean_up() {
  local status=$?
  trap - EXIT
  rm -rf -- "$part"
  say "build failed; nothing was installed"
  exit "$status"
}
)sh";

constexpr const char* kEndImage = R"sh(mv -- "$part" "$image"
trap - EXIT
say "built $image in $((SECONDS - began)) s"
)sh";

constexpr const char* kDoctorInVenv = R"sh(source "$target/bin/activate"
"$lockstep" doctor --quick ||
  say "lockstep doctor reported problems (exit code $?); the environment is kept"
)sh";

// The image can lack libraries that this executable is linked with.
constexpr const char* kDoctorInImage = R"sh(if inside --version >/dev/null 2>&1; then
  inside doctor --quick ||
    say "lockstep doctor reported problems (exit code $?); the image is kept"
else
  say "lockstep does not run in the image; lockstep doctor skipped"
fi
)sh";

std::string render_top(const EnvBuild& build, const BuildMeans& means) {
  std::string text = fmt::format("#!/bin/bash\n# Builds the {} {}.\n",
                                 build.kind == BuildKind::Venv ? "environment" : "image",
                                 build.path);
  text += render_maker(means.maker);
  if (build.is_submitted) {
    text += "#\n" + render_directives(build.job.directives);
  }
  text += kTools + render_environment(build.job);
  // Not earlier: the shell code of module systems fails under `set -eu`.
  return text + "\nset -euo pipefail\nbegan=$SECONDS\n";
}

// "pip install" with its options; one line per requirement.
std::string pip_install(const EnvBuild& build, const std::vector<std::string>& words) {
  std::string options;
  for (const std::string& option : build.pip_options) {
    options += " " + in_quotes(option);
  }
  std::vector<std::string> lines = {"\"$python\" -m pip install" + options};
  lines.insert(lines.end(), words.begin(), words.end());
  return continued(lines);
}

// One call of pip for all packages, so that its resolver sees all constraints.
std::string render_packages(const EnvBuild& build) {
  std::vector<std::string> words;
  if (!build.requirements.empty()) {
    words.push_back("--requirement " + in_quotes(build.requirements));
  }
  for (const std::string& package : build.packages) {
    words.push_back(in_quotes(package));
  }
  return words.empty() ? "" : "\n# Packages\n" + pip_install(build, words);
}

// Horovod is compiled against torch in the environment, hence --no-build-isolation.
std::string render_horovod(const EnvBuild& build) {
  if (!build.has_horovod) {
    return "";
  }
  Pairs variables = {{"HOROVOD_WITH_PYTORCH", "1"},
                     {"HOROVOD_WITHOUT_TENSORFLOW", "1"},
                     {"HOROVOD_WITHOUT_MXNET", "1"}};
  if (!build.nccl_home.empty()) {
    variables.emplace_back("HOROVOD_GPU_OPERATIONS", "NCCL");
    variables.emplace_back("HOROVOD_NCCL_HOME", build.nccl_home);
  }
  std::string text = "\n# Horovod, compiled for the installed torch\n";
  for (const auto& variable : variables) {
    const bool is_said =
        std::any_of(build.job.variables.begin(), build.job.variables.end(), [&](const auto& said) {
          return said.first == variable.first;
        });
    text +=
        is_said ? "" : fmt::format("export {}={}\n", variable.first, in_quotes(variable.second));
  }
  const std::string version = build.horovod_version.empty() ? "" : "==" + build.horovod_version;
  text += pip_install(build, {"\"packaging\"", "\"setuptools\"", "\"wheel\""});
  text += pip_install(build,
                      {"--no-build-isolation", "--no-cache-dir", in_quotes("horovod" + version)});
  return text + "\"$target/bin/horovodrun\" --check-build\n";
}

// The last step checks the environment from the inside.
std::string render_doctor(const BuildMeans& means) {
  return fmt::format("\n# Check of the result\nlockstep={}\n", in_quotes(means.lockstep));
}

std::string render_venv(const EnvBuild& build, const BuildMeans& means) {
  std::string text =
      fmt::format("target={}\npython={}\n", in_quotes(build.path), in_quotes(build.python));
  text += kVenvTarget;
  text += kTraps;
  text += "command -v \"$python\" >/dev/null || fail \"no $python on $(hostname)\"\n";
  text += means.is_forced ? kReplaceVenv : kKeepVenv;
  text += kBeginVenv;
  if (!build.cache_dir.empty()) {
    text += fmt::format("export PIP_CACHE_DIR={}\n", in_quotes(build.cache_dir));
  }
  text += fmt::format("\"$python\" -m venv{} \"$target\"\n",
                      build.has_system_packages ? " --system-site-packages" : "");
  text += "mv -- \"$target/bin/activate\" \"$target/lockstep.activate\"\n";
  text += "python=$target/bin/python\n";
  return text + render_packages(build) + render_horovod(build) + kEndVenv + render_doctor(means) +
         kDoctorInVenv;
}

std::string render_image(const EnvBuild& build, const BuildMeans& means) {
  std::string text = fmt::format("image={}\n", in_quotes(build.path));
  text += kImageTarget;
  text += kTraps;
  text += "command -v apptainer >/dev/null || fail \"no apptainer on $(hostname)\"\n";
  text += means.is_forced
              ? "[[ ! -d $image ]] || fail \"$image is a directory; not replaced\"\n"
              : "[[ ! -e $image ]] || fail \"$image already exists; --force replaces it\"\n";
  text += fmt::format(
      "\n# Cache and temporary files of Apptainer\n"
      "cache={}\n"
      "[[ $cache == /* ]] || cache=$PWD/$cache\n"
      "export APPTAINER_CACHEDIR=$cache APPTAINER_TMPDIR=$cache/tmp\n"
      "mkdir -p -- \"$cache/tmp\" \"$(dirname \"$image\")\"\n",
      in_quotes(build.cache_dir));
  std::string options;
  for (const std::string& option : build.build_options) {
    options += " " + in_quotes(option);
  }
  text += fmt::format("\n# Image\napptainer {}{} \"$part\" {}\n",
                      build.source.empty() ? "build" : "pull",
                      options,
                      in_quotes(build.source.empty() ? build.definition : build.source));
  text += kEndImage + render_doctor(means);
  text += fmt::format(
      "inside() {{ apptainer exec{} --bind \"$(dirname \"$lockstep\")\" \"$image\" "
      "\"$lockstep\" \"$@\"; }}\n",
      build.job.gpus_per_node > 0 ? " --nv" : "");
  return text + kDoctorInImage;
}

}  // namespace

std::string render_env_build(const EnvBuild& build, const BuildMeans& means) {
  return render_top(build, means) + "\n" +
         (build.kind == BuildKind::Venv ? render_venv(build, means) : render_image(build, means));
}

}  // namespace lockstep::slurm
