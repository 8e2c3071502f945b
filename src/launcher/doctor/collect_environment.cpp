// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"
#include "common/os/directory.h"
#include "common/os/limits.h"
#include "launcher/doctor/collect.h"
#include "launcher/doctor/run_with_timeout.h"

// What surrounds the program: containers, modules, Python environments, proxies, space. A report is
// pasted into tickets, so passwords in proxy addresses are masked here, at the source.
namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kLimit(10);

void collect_container(EnvironmentFacts& facts, const os::Environment& environment, bool is_quick) {
  for (const char* name : {"apptainer", "singularity"}) {
    const auto program = os::find_program(name, environment);
    if (!program) {
      continue;
    }
    facts.container_name = name;
    facts.container.where = program->string();
    const auto result =
        is_quick ? std::nullopt : run_with_timeout({name, "--version"}, environment, kLimit);
    facts.container.version = result ? find_version(result->output) : "";
    break;
  }
  std::string text = cluster::read_kernel_text("/proc/sys/user/max_user_namespaces");
  text.resize(std::min(text.size(), text.find('\n')));
  facts.user_namespaces = find_integer(text).value_or(kUnknown);
  facts.has_fuse = os::exists("/dev/fuse");
}

// Lmod and environment-modules define `module` only in login shells; batch scripts are not.
void collect_modules(EnvironmentFacts& facts, const os::Environment& environment, bool is_quick) {
  if (const auto version = os::find_variable(environment, "LMOD_VERSION")) {
    facts.modules = "Lmod " + *version;
  } else if (environment.contains("LMOD_CMD") || os::exists("/usr/share/lmod")) {
    facts.modules = "Lmod";
  } else if (environment.contains("MODULES_CMD") || environment.contains("MODULESHOME") ||
             os::exists("/usr/share/modules")) {
    facts.modules = "environment-modules";
  }
  for (const char* script : {"/etc/profile.d/lmod.sh",
                             "/etc/profile.d/z00_lmod.sh",
                             "/etc/profile.d/modules.sh",
                             "/usr/share/lmod/lmod/init/bash",
                             "/usr/share/modules/init/bash"}) {
    if (facts.module_script.empty() && os::exists(script)) {
      facts.module_script = script;
    }
  }
  if (facts.modules.empty() || is_quick) {
    return;
  }
  const auto result = run_with_timeout({"bash", "-c", "type -t module"}, environment, kLimit);
  if (result) {
    facts.has_module_command = result->status.is_success();
  }
}

SpaceFact space_of(const std::string& path) {
  SpaceFact fact{.path = path, .total = kUnknown, .free = kUnknown};
  if (const auto space = os::find_space(path)) {
    fact.total = static_cast<int64_t>(space->total_bytes);
    fact.free = static_cast<int64_t>(space->free_bytes);
  }
  return fact;
}

// The name is new for each examination, so no NFS client has cached its absence.
std::optional<bool> find_visibility(const std::string& file) {
  return file.empty() ? std::nullopt : std::optional(os::exists(file));
}

}  // namespace

EnvironmentFacts collect_environment(const os::Environment& environment,
                                     const CollectOptions& options) {
  EnvironmentFacts facts;
  collect_container(facts, environment, options.is_quick);
  collect_modules(facts, environment, options.is_quick);
  facts.virtual_env = os::find_variable(environment, "VIRTUAL_ENV").value_or("");
  facts.conda = os::find_variable(environment, "CONDA_PREFIX").value_or("");
  for (const char* name :
       {"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}) {
    if (const auto value = os::find_variable(environment, name); value && !value->empty()) {
      facts.proxies[name] = without_password(*value);
    }
  }
  facts.temp = space_of(os::find_variable(environment, "TMPDIR").value_or("/tmp"));
  facts.home = space_of(os::find_variable(environment, "HOME").value_or("/"));
  facts.sees_home = find_visibility(options.file_in_home);
  facts.sees_directory = find_visibility(options.file_in_directory);
  return facts;
}

}  // namespace lockstep::doctor
