// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"
#include "os/environment.h"
#include "plan/request.h"

// Looks around on one machine. Whatever is not there is left out; nothing throws for that, and no
// program is waited for longer than its limit.
namespace lockstep::doctor {

struct CollectOptions {
  bool is_quick = false;                // start no other program
  std::vector<std::string> names = {};  // of nodes, to be resolved here
  std::string file_in_home = {};        // that another node has made; empty: none
  std::string file_in_directory = {};
};

NodeFacts collect_node(const os::Environment& environment, const CollectOptions& options);
SlurmFacts collect_slurm(const plan::Surroundings& here, bool is_quick);

// Its parts.
std::vector<InterfaceFact> collect_interfaces(const std::filesystem::path& sysfs = "/sys");
std::vector<RdmaPortFact> collect_rdma(const std::filesystem::path& sysfs = "/sys");
GpuFacts collect_gpus(const os::Environment& environment,
                      const std::string& library = "libnvidia-ml.so.1");
SoftwareFacts collect_software(const os::Environment& environment, bool is_quick);
LimitFacts collect_limits(const os::Environment& environment);
PlaceFacts collect_place(const os::Environment& environment, const CollectOptions& options);

// ---- readers of other programs' words ----

// The first "1.2.3" in a text; empty when there is none.
std::string find_version(std::string_view text);

// "http://me:secret@proxy:3128" loses what is between the slashes and the @.
std::string without_password(const std::string& url);

}  // namespace lockstep::doctor
