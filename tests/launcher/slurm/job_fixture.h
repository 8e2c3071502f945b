// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/config/yaml.h"
#include "launcher/slurm/job.h"

namespace lockstep::testing {

inline slurm::JobSettings settings_of(const std::string& yaml) {
  slurm::JobSettings settings;
  settings.lay(config::parse_yaml(yaml, "job.yaml"));
  return settings;
}

// Every file contains its own name, and there are no measurements of previous runs.
inline slurm::JobInputs plain_inputs() {
  return {.lockstep = "/opt/lockstep/bin/lockstep",
          .earlier_pace = [](const std::string&) { return contract::Pace(); },
          .read_text =
              [](const std::string&, const std::string& where) {
                return "echo text of " + where + "\n";
              }};
}

inline slurm::Job job_of(const std::string& yaml) {
  return slurm::make_job(settings_of(yaml), plain_inputs());
}

// Error text for a job; empty if it is valid.
inline std::string refusal_of(const std::string& yaml) {
  try {
    job_of(yaml);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace lockstep::testing
