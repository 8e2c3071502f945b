// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "launcher/config/yaml.h"
#include "launcher/slurm/batch_script.h"
#include "launcher/slurm/job.h"

// Environments for programs, built by a script: a Python virtual environment or an Apptainer image.
namespace lockstep::slurm {

enum class BuildKind { Venv, Apptainer };

// The content of an environment file.
struct EnvBuild {
  BuildKind kind = BuildKind::Venv;
  bool is_submitted = true;
  bool has_system_packages = false;  // venv --system-site-packages
  bool has_horovod = false;
  bool may_cache_in_home = false;
  std::string path;  // directory of the environment, or file of the image
  Job job;  // name, directives, modules and variables; a local build uses only the last two

  // Virtual environment.
  std::string python;
  std::vector<std::string> packages;
  std::string requirements;  // file; empty: none
  std::vector<std::string> pip_options;
  std::string horovod_version;  // empty: the newest
  std::string nccl_home;        // empty: Horovod is built for CPUs

  // Image: from a definition file or from another image, docker://NAME.
  std::string definition;
  std::string source;
  std::vector<std::string> build_options;

  // Cache directory of pip or Apptainer; empty: the default of pip.
  std::string cache_dir;

  // Sources of the keys that are later checked against the file system.
  std::string position_of(std::string_view key) const;
  Pairs positions;
};

// Throws an Error (64) with the position of an invalid entry.
EnvBuild read_env_build(const config::TreeNode& map);

// Variables that must not appear in the script; they are passed in its environment.
Pairs secrets_of_env_build(const config::TreeNode& map);

// choose_cache() selects a directory for the Apptainer cache if none is given: next to the image,
// or below $SCRATCH or $TMPDIR if the image is in the home directory, because the cache would fill
// its quota. Throws an Error (64) for a cache_dir in the home directory without cache_in_home.
//
// check_files() throws an Error (64) if a given file does not exist and, unless `is_forced`, if the
// environment already exists.
void choose_cache(EnvBuild& build,
                  const os::Environment& environment,
                  const std::filesystem::path& here);
void check_files(const EnvBuild& build, const os::Environment& environment, bool is_forced);

// Expands ~/, $NAME and ${NAME} in a path. Empty if a variable is not set.
std::optional<std::filesystem::path> find_expanded(std::string_view text,
                                                   const os::Environment& environment);

// Additional input of render_env_build().
struct BuildMeans {
  Maker maker;
  std::string lockstep;  // path of this executable
  bool is_forced = false;
};

// Renders the build script. Pure function: the same build gives the same text.
std::string render_env_build(const EnvBuild& build, const BuildMeans& means);

}  // namespace lockstep::slurm
