// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <fmt/format.h>

#include "slurm/env_build.h"
#include "slurm/shell_text.h"

namespace lockstep::slurm {
namespace {

constexpr const char* kTools = R"sh(
say() { printf 'lockstep env: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
)sh";

// Signals become an end of the script, which then cleans up.
constexpr const char* kTraps = R"sh(trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
)sh";

// A virtual environment knows its own path, so it is made where it will be.
constexpr const char* kVenvPlace = R"sh([[ $target == /* ]] || target=$PWD/$target

# It is made in its place, as it knows its own path. Until it is whole it has a
# file lockstep.unfinished and no bin/activate; if it fails it goes, and what was
# there before comes back.
before=$target.lockstep-before
mine=
clean_up() {
  local status=$?
  trap - EXIT
  if [[ -n $mine ]]; then
    rm -rf -- "$target"
    [[ ! -e $before ]] || mv -- "$before" "$target"
    say "failed; nothing was built"
  fi
  exit "$status"
}
)sh";

// A build that was killed may have left the old one aside.
constexpr const char* kKeepVenv = R"sh([[ -e $target || ! -e $before ]] || mv -- "$before" "$target"
[[ ! -e $target ]] || fail "$target is there already; --force replaces it"
)sh";

// What is replaced must be what it is taken for.
constexpr const char* kReplaceVenv =
    R"sh([[ ! -e $target/lockstep.unfinished ]] || rm -rf -- "$target"
[[ -e $target || ! -e $before ]] || mv -- "$before" "$target"
if [[ -e $target ]]; then
  [[ -f $target/pyvenv.cfg ]] || fail "$target is no virtual environment; it stays"
  rm -rf -- "$before"
  mv -- "$target" "$before"
fi
)sh";

constexpr const char* kBeginVenv = R"sh(mkdir -p -- "$(dirname "$target")"
mkdir -- "$target"
mine=yes
echo "job ${SLURM_JOB_ID:-none} on $(hostname), process $$" >"$target/lockstep.unfinished"
)sh";

constexpr const char* kEndVenv = R"sh(
# It is whole.
mv -- "$target/lockstep.activate" "$target/bin/activate"
rm -f -- "$target/lockstep.unfinished"
mine=
rm -rf -- "$before"
say "built $target in $((SECONDS - began)) s"
)sh";

constexpr const char* kImagePlace = R"sh(
# It is made beside its place and moved there when it is whole.
part=$image.${SLURM_JOB_ID:-$$}.part
clean_up() {
  local status=$?
  trap - EXIT
  rm -rf -- "$part"
  say "failed; nothing was built"
  exit "$status"
}
)sh";

constexpr const char* kEndImage = R"sh(mv -- "$part" "$image"
trap - EXIT
say "built $image in $((SECONDS - began)) s"
)sh";

constexpr const char* kDoctorInVenv = R"sh(source "$target/bin/activate"
"$lockstep" doctor --quick ||
  say "doctor has found something (exit code $?); what was built stays"
)sh";

// What this launcher was linked with may not be in the image.
constexpr const char* kDoctorInImage = R"sh(if inside --version >/dev/null 2>&1; then
  inside doctor --quick ||
    say "doctor has found something (exit code $?); what was built stays"
else
  say "this lockstep does not run in the image, so its doctor stays out"
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
  // Only now: the shell code of module systems was not written for it.
  return text + "\nset -euo pipefail\nbegan=$SECONDS\n";
}

// "pip install" with its options, what is installed on lines of its own.
std::string pip_install(const EnvBuild& build, const std::vector<std::string>& words) {
  std::string options;
  for (const std::string& option : build.pip_options) {
    options += " " + in_quotes(option);
  }
  std::vector<std::string> lines = {"\"$python\" -m pip install" + options};
  lines.insert(lines.end(), words.begin(), words.end());
  return continued(lines);
}

std::string render_packages(const EnvBuild& build) {
  std::vector<std::string> words;
  if (!build.requirements.empty()) {
    words.push_back("--requirement " + in_quotes(build.requirements));
  }
  for (const std::string& package : build.packages) {
    words.push_back(in_quotes(package));
  }
  return words.empty() ? "" : "\n# Packages.\n" + pip_install(build, words);
}

// Horovod is compiled here against the torch that is in the environment, hence not in isolation.
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
  std::string text = "\n# Horovod, compiled for the torch that is here.\n";
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

// The last step: what programs will find in what was built.
std::string render_doctor(const BuildMeans& means) {
  return fmt::format("\n# What programs will find in it.\nlockstep={}\n",
                     in_quotes(means.lockstep));
}

std::string render_venv(const EnvBuild& build, const BuildMeans& means) {
  std::string text =
      fmt::format("target={}\npython={}\n", in_quotes(build.path), in_quotes(build.python));
  text += kVenvPlace;
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
  text += kImagePlace;
  text += kTraps;
  text += "command -v apptainer >/dev/null || fail \"no apptainer on $(hostname)\"\n";
  text += means.is_forced
              ? "[[ ! -d $image ]] || fail \"$image is a directory; it stays\"\n"
              : "[[ ! -e $image ]] || fail \"$image is there already; --force replaces it\"\n";
  text += fmt::format(
      "\n# What Apptainer keeps for the next time, and needs meanwhile.\n"
      "cache={}\n"
      "[[ $cache == /* ]] || cache=$PWD/$cache\n"
      "export APPTAINER_CACHEDIR=$cache APPTAINER_TMPDIR=$cache/tmp\n"
      "mkdir -p -- \"$cache/tmp\" \"$(dirname \"$image\")\"\n",
      in_quotes(build.cache_dir));
  std::string options;
  for (const std::string& option : build.build_options) {
    options += " " + in_quotes(option);
  }
  text += fmt::format("\n# The image.\napptainer {}{} \"$part\" {}\n",
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
