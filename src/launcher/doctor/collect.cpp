// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/collect.h"

#include <algorithm>
#include <fmt/format.h>
#include <fstream>
#include <set>

#include "common/base/text.h"
#include "common/cluster/cgroup.h"
#include "common/cluster/cores.h"
#include "common/cluster/interfaces.h"
#include "common/os/directory.h"
#include "common/os/host.h"
#include "common/os/limits.h"
#include "common/os/network.h"
#include "common/os/probe_socket.h"
#include "common/os/process.h"
#include "common/os/socket.h"
#include "launcher/doctor/run_with_timeout.h"
#include "lockstep/error.h"

// Runs on every node, called by the agent (questions.cpp), or directly outside of a job. Must not
// change anything, must not throw, and must end in bounded time: whatever is broken on the node is
// the subject of the report, not a reason to miss it. Files of /sys and /proc are read directly;
// programs run with a timeout.
namespace lockstep::doctor {
namespace {

namespace fs = std::filesystem;

// Reads one line of a kernel file, without trailing blanks.
std::string read_word(const fs::path& path) {
  std::ifstream file(path);  // reading the speed fails with many drivers: the line is then empty
  std::string text;
  std::getline(file, text);
  while (!text.empty() && text.back() == ' ') {
    text.pop_back();
  }
  return text;
}

int64_t from_limit(uint64_t value) {
  return value > static_cast<uint64_t>(INT64_MAX) ? kUnlimited : static_cast<int64_t>(value);
}

//   /sys/class/infiniband/DEVICE/ports/N/gids/INDEX             fe80:0000:...
//                                       /gid_attrs/types/INDEX  "RoCE v2"
//                                       /gid_attrs/ndevs/INDEX  name of the network interface
//
// The kernel has a fixed number of entries. Unused ones are all zero, and reading their type fails.
std::vector<GidFact> collect_gids(const fs::path& port) {
  std::vector<GidFact> gids;
  for (const std::string& name : os::find_names(port / "gid_attrs" / "types")) {
    const std::string gid = read_word(port / "gids" / name);
    const bool is_empty = gid.find_first_not_of("0:") == std::string::npos;
    if (const auto index = find_integer(name); index && !is_empty) {
      gids.push_back({.index = static_cast<int>(*index),
                      .gid = gid,
                      .type = read_word(port / "gid_attrs" / "types" / name),
                      .interface = read_word(port / "gid_attrs" / "ndevs" / name)});
    }
  }
  std::sort(gids.begin(), gids.end(), [](const GidFact& one, const GidFact& other) {
    return one.index < other.index;
  });
  return gids;
}

// Minimum of the limits from this cgroup to the root. A job has nested cgroups (job, step, task),
// and the limit can be at any level.
int64_t collect_memory_limit() {
  // Version 1 represents "no limit" by the largest multiple of the page size.
  constexpr int64_t kAsGoodAsNone = INT64_MAX / 2;
  int64_t minimum = kUnlimited;
  const std::string membership = cluster::read_kernel_text("/proc/self/cgroup");
  for (const fs::path& folder :
       cluster::cgroup_folders(membership, cluster::kCgroupMount, "memory")) {
    for (const char* name : {"memory.max", "memory.limit_in_bytes"}) {
      const auto limit = find_integer(read_word(folder / name));
      if (limit && *limit < kAsGoodAsNone) {
        minimum = std::min(minimum, *limit);
      }
    }
  }
  return minimum;
}

// An agent raises its own soft limit, so the limit of its parent is the one that workers get.
int64_t collect_open_files(const os::ResourceLimits& own) {
  constexpr std::string_view kLine = "Max open files";
  const std::string text =
      cluster::read_kernel_text(fmt::format("/proc/{}/limits", os::parent_process_id()));
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(kLine)) {
      const size_t digits = line.find_first_of("0123456789", kLine.size());
      const size_t end = digits == std::string::npos ? digits : line.find(' ', digits);
      const auto found = digits == std::string::npos
                             ? std::nullopt
                             : find_integer(line.substr(digits, end - digits));
      return std::min(found.value_or(kUnlimited), from_limit(own.open_files));
    }
  }
  return from_limit(own.open_files);
}

// Runs in another process, because a resolver that does not answer would block this one.
std::vector<std::string> resolve(const std::string& name, const os::Environment& environment) {
  constexpr std::chrono::seconds kLimit(5);
  std::set<std::string> addresses;
  const auto result = run_with_timeout({"getent", "ahosts", name}, environment, kLimit);
  for (const std::string& line : split(result ? result->output : "", '\n')) {
    const std::string address = line.substr(0, line.find(' '));
    if (!address.empty()) {
      addresses.insert(address);
    }
  }
  return {addresses.begin(), addresses.end()};
}

bool can_listen() {
  try {
    os::listen_everywhere();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<InterfaceFact> collect_interfaces(const fs::path& sysfs) {
  std::vector<InterfaceFact> facts;
  std::vector<cluster::Address> addresses;
  try {
    addresses = cluster::list_addresses(sysfs);
  } catch (const Error&) {  // the kernel does not list them
    addresses.clear();
  }
  for (const std::string& name : os::find_names(sysfs / "class" / "net")) {
    const fs::path folder = sysfs / "class" / "net" / name;
    std::error_code ignored;
    if (!fs::is_directory(folder, ignored)) {
      continue;
    }
    const auto number = [&folder](const char* file) {
      const auto value = find_integer(read_word(folder / file));
      return value && *value > 0 && *value < INT32_MAX ? static_cast<int>(*value) : 0;
    };
    InterfaceFact fact{.name = name,
                       .state = read_word(folder / "operstate"),
                       .speed_mbps = number("speed"),
                       .mtu = number("mtu"),
                       .is_rdma = false,
                       .addresses = {}};
    for (const cluster::Address& address : addresses) {
      if (address.interface == name) {
        fact.addresses.push_back(fmt::format("{}/{}", address.text, address.prefix));
        fact.is_rdma = address.is_rdma;
      }
    }
    facts.push_back(std::move(fact));
  }
  return facts;
}

std::vector<RdmaPortFact> collect_rdma(const fs::path& sysfs) {
  std::vector<RdmaPortFact> ports;
  const fs::path devices = sysfs / "class" / "infiniband";
  for (const std::string& device : os::find_names(devices)) {
    for (const std::string& name : os::find_names(devices / device / "ports")) {
      const fs::path port = devices / device / "ports" / name;
      ports.push_back({.device = device,
                       .port = static_cast<int>(find_integer(name).value_or(1)),
                       .state = read_word(port / "state"),
                       .link_layer = read_word(port / "link_layer"),
                       .rate = read_word(port / "rate"),
                       .gids = collect_gids(port)});
    }
  }
  return ports;
}

LimitFacts collect_limits(const os::Environment& environment) {
  const os::ResourceLimits limits = os::resource_limits();
  LimitFacts facts;
  facts.cores_usable = cluster::granted_cores();
  facts.cores_online = os::machine_processors();
  const auto granted =
      find_integer(os::find_variable(environment, "SLURM_CPUS_ON_NODE").value_or(""));
  facts.cores_granted = granted ? static_cast<int>(*granted) : -1;
  facts.memory_limit = collect_memory_limit();
  facts.memory_total = from_limit(os::machine_memory_bytes());
  if (const auto shm = os::find_space("/dev/shm")) {
    facts.shm_total = from_limit(shm->total_bytes);
    facts.shm_free = from_limit(shm->free_bytes);
  }
  facts.open_files = collect_open_files(limits);
  facts.most_open_files = from_limit(limits.max_open_files);
  facts.locked_bytes = from_limit(limits.locked_bytes);
  facts.processes = from_limit(limits.processes);
  return facts;
}

// The software comes last, because it can take 20 seconds. The number of names is limited: each
// lookup can take kLimit if the resolver does not respond.
NodeFacts collect_node(const os::Environment& environment, const CollectOptions& options) {
  constexpr int kTorchPort = 29500;
  NodeFacts facts;
  facts.name = os::host_name();
  facts.interfaces = collect_interfaces();
  facts.rdma = collect_rdma();
  facts.can_listen = can_listen();
  facts.is_29500_free = os::is_port_free("127.0.0.1", kTorchPort);
  if (!options.is_quick) {
    constexpr size_t kMaxNames = 64;
    const size_t count = std::min(kMaxNames, options.names.size());
    for (const std::string& name : std::span(options.names).first(count)) {
      facts.resolved[name] = resolve(name, environment);
    }
  }
  facts.gpu = collect_gpus(environment);
  facts.limits = collect_limits(environment);
  facts.place = collect_environment(environment, options);
  facts.software = collect_software(environment, options.is_quick);
  return facts;
}

// A word of digits and dots counts if it has a dot inside: "Open MPI 4.1.4" but not "HYDRA 3".
std::string find_version(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  for (size_t at = text.find_first_of(kDigits); at != std::string_view::npos;
       at = text.find_first_of(kDigits, text.find_first_not_of("0123456789.", at))) {
    const size_t end = std::min(text.size(), text.find_first_not_of("0123456789.", at));
    std::string_view word = text.substr(at, end - at);
    while (word.ends_with('.')) {
      word.remove_suffix(1);
    }
    if (word.find('.') != std::string_view::npos) {
      return std::string(word);
    }
    if (end == text.size()) {
      break;
    }
  }
  return "";
}

// Up to the last @, because a password can contain one.
std::string without_password(const std::string& url) {
  const size_t slashes = url.find("://");
  const size_t from = slashes == std::string::npos ? 0 : slashes + 3;
  const size_t at = url.rfind('@');
  return at == std::string::npos || at < from ? url : url.substr(0, from) + "***" + url.substr(at);
}

}  // namespace lockstep::doctor
