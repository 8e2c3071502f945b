// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/jobs/job_layers.h"

#include "common/os/environment.h"
#include "common/os/host.h"
#include "launcher/slurm/job_file.h"

namespace lockstep::cli {

namespace fs = std::filesystem;

std::vector<fs::path> site_directories() {
  const fs::path share =
      fs::path(os::own_executable()).parent_path().parent_path() / "share/lockstep";
  return slurm::site_directories(os::environment(), share);
}

std::vector<slurm::Site> known_sites() {
  return slurm::find_sites(site_directories());
}

// The name of the site can itself be set in the job file or on the command line, so these two
// layers are laid once to find it, and again, above the profile, to get the settings.
JobLayers read_job_layers(const std::optional<std::string>& file, const JobFlags& flags) {
  JobLayers layers;
  config::TreeNode said;
  if (file) {
    said = slurm::read_job_file(*file);
  }
  config::TreeNode typed;
  typed.kind = config::TreeNode::Kind::Map;
  typed.entries.reserve(flags.size());
  for (const auto& [key, node] : flags) {
    typed.entries.push_back({key, node.position, node});
  }
  slurm::JobSettings above;
  above.lay(said);
  above.lay(typed);
  // With `site: none` no profile is read, so a broken profile is not an error.
  const std::string name = above.text("site");
  if (name.empty()) {
    layers.site = slurm::find_site_of(os::host_name(), known_sites());
  } else if (name != "none") {
    layers.site = slurm::site_named(name, known_sites());
  }
  if (layers.site) {
    layers.settings.lay(layers.site->settings);
  }
  layers.settings.lay(said);
  layers.settings.lay(typed);
  return layers;
}

}  // namespace lockstep::cli
