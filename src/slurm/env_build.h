// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.h"
#include "os/environment.h"
#include "slurm/batch_script.h"
#include "slurm/job.h"

// Environments that programs run in, made by a script: a virtual environment of Python's, or an
// image of Apptainer's.
namespace lockstep::slurm {

enum class BuildKind { Venv, Apptainer };

// What shall be built, and where, as a file asks for it.
struct EnvBuild {
  BuildKind kind = BuildKind::Venv;
  bool is_submitted = true;
  bool has_system_packages = false;  // a virtual environment that sees those of its python too
  bool has_horovod = false;
  bool may_cache_in_home = false;
  std::string path;  // of the environment's directory, or of the image
  Job job;  // its name, directives, modules and variables; where it is not submitted the latter
            // only

  // A virtual environment.
  std::string python;
  std::vector<std::string> packages;
  std::string requirements;  // a file; empty: none
  std::vector<std::string> pip_options;
  std::string horovod_version;  // empty: the newest
  std::string nccl_home;        // empty: Horovod is built for CPUs

  // An image: from a definition file or from another image, docker://NAME.
  std::string definition;
  std::string source;
  std::vector<std::string> build_options;

  // What pip or Apptainer keep for the next time; empty: pip's own place.
  std::string cache_dir;

  // Where those were said that are checked against the disk later.
  std::string place_of(std::string_view key) const;
  Pairs places;
};

// Throws an Error (64) with the place of what is not understood.
EnvBuild read_env_build(const config::Node& map);

// The variables that must not be shown, for the environment that the script is run with.
Pairs secrets_of_env_build(const config::Node& map);

// What the disk says to it.
//
// Chooses a directory for Apptainer's cache where none is named: beside the image, unless that is
// in the home, whose quota it would fill; then below $SCRATCH or $TMPDIR. Throws an Error (64) for
// a cache in the home that was not asked for, a file that is named and not there, and, unless
// `is_forced`, for an environment that is there already.
void choose_cache(EnvBuild& build,
                  const os::Environment& environment,
                  const std::filesystem::path& here);
void check_files(const EnvBuild& build, const os::Environment& environment, bool is_forced);

// A path with ~/, $NAME and ${NAME} replaced; nothing where one is not set.
std::optional<std::filesystem::path> find_expanded(std::string_view text,
                                                   const os::Environment& environment);

// What the script is made with beside its build.
struct BuildMeans {
  Maker maker;
  std::string lockstep;  // this launcher's path
  bool is_forced = false;
};

// Pure: the same build gives the same text.
std::string render_env_build(const EnvBuild& build, const BuildMeans& means);

}  // namespace lockstep::slurm
