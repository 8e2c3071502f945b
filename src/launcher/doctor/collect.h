// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/environment.h"
#include "launcher/doctor/facts.h"
#include "launcher/plan/request.h"

// Collects the facts of one machine. Missing things are omitted and never cause an exception. Every
// external program has a timeout.
namespace lockstep::doctor {

struct CollectOptions {
  bool is_quick = false;                // start no external programs
  std::vector<std::string> names = {};  // host names to resolve
  std::string file_in_home = {};        // created by another node; empty: none
  std::string file_in_directory = {};
};

NodeFacts collect_node(const os::Environment& environment, const CollectOptions& options);
SlurmFacts collect_slurm(const plan::HostEnvironment& here, bool is_quick);

// Parts of collect_node().
std::vector<InterfaceFact> collect_interfaces(const std::filesystem::path& sysfs = "/sys");
std::vector<RdmaPortFact> collect_rdma(const std::filesystem::path& sysfs = "/sys");
GpuFacts collect_gpus(const os::Environment& environment,
                      const std::string& library = "libnvidia-ml.so.1");
SoftwareFacts collect_software(const os::Environment& environment, bool is_quick);
LimitFacts collect_limits(const os::Environment& environment);
EnvironmentFacts collect_environment(const os::Environment& environment,
                                     const CollectOptions& options);

// ---- parsers for the output of other programs ----

// Finds the first "1.2.3" in a text; empty if there is none.
std::string find_version(std::string_view text);

// Masks user and password in a URL: "http://me:secret@proxy:3128".
std::string without_password(const std::string& url);

}  // namespace lockstep::doctor
