// SPDX-License-Identifier: Apache-2.0
//
// Checks run on every node, not only on the leader: PATH, mounts and devices can differ there. An
// Error becomes a Refused report, which names the node.
#include "launcher/supervisor/node/placement.h"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "common/base/text.h"
#include "common/cluster/binding.h"
#include "common/cluster/gpus.h"
#include "common/os/command.h"
#include "common/os/host.h"
#include "common/os/socket.h"
#include "lockstep/error.h"

namespace lockstep::supervisor {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> find_similar_file(const fs::path& path) {
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  std::error_code ignored;  // without the folder there is no similar file
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    names.push_back(entry.path().filename().string());
  }
  const auto closest = find_closest(path.filename().string(), names);
  if (!closest) {
    return std::nullopt;
  }
  return path.has_parent_path() ? (folder / *closest).string() : *closest;
}

void require_file(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw Error(ExitCode::Usage, fmt::format("cannot run '{}': it is a directory", path))
        .fact("requested", path, "command line")
        .hint("name the program in this directory");
  }
  if (fs::exists(path, ignored)) {
    return;
  }
  throw Error(ExitCode::Usage, fmt::format("cannot run '{}': no such file", path))
      .fact("requested", path, "command line")
      .hint(find_similar_file(path).value_or("a path relative to " + fs::current_path().string()));
}

// Python itself would report a missing script, but once per rank and after its start-up time. A
// script needs read permission only, not the executable bit.
std::string require_python(const std::string& script, const os::Environment& environment) {
  require_file(script);
  if (!os::is_readable(script)) {
    throw Error(ExitCode::Usage, fmt::format("cannot run '{}': permission denied", script))
        .fact("requested", script, "command line")
        .hint(fmt::format("chmod u+r {}", quote_for_shell(script)));
  }
  const auto python = os::find_program("python3", environment);
  if (!python) {
    throw Error(ExitCode::Usage, fmt::format("cannot run '{}': python3 not found", script))
        .fact("searched", os::find_variable(environment, "PATH").value_or(""), "PATH")
        .hint("activate the Python environment of the program first");
  }
  return python->string();
}

[[noreturn]] void refuse_unknown_name(const std::string& name, const os::Environment& environment) {
  const fs::path here = fs::path(".") / name;
  std::error_code ignored;
  throw Error(ExitCode::Usage, fmt::format("cannot run '{}': no such program in PATH", name))
      .fact("searched", os::find_variable(environment, "PATH").value_or(""), "PATH")
      .hint(fs::exists(here, ignored)
                ? here.string()
                : fmt::format("the path of the program, for example ./{}", name));
}

// A host that is not an address of this machine is the common mistake here: --master-addr is then
// the address of another node, or of a login node. The facts are added to the Error of os.
bool is_free(const std::string& host, int port) {
  try {
    return os::is_port_free(host, port);
  } catch (Error& error) {
    error.fact("requested", "--master-addr " + host, "command line");
    error.hint("omit --master-addr: the workers of one machine then use 127.0.0.1");
    throw;
  }
}

}  // namespace

// "python3 SCRIPT.py" is usually what read_program() makes of a script; the user typed the script
// only, so messages name the script. A name without a slash is looked up in PATH, as in a shell.
std::string require_program(const std::vector<std::string>& command,
                            const os::Environment& environment) {
  const std::string& name = command.at(0);
  if (name == "python3" && command.size() > 1 && command[1].ends_with(".py")) {
    return require_python(command[1], environment);
  }
  if (const auto program = os::find_program(name, environment)) {
    return program->string();
  }
  if (name.find('/') == std::string::npos) {
    refuse_unknown_name(name, environment);
  }
  require_file(name);
  throw Error(ExitCode::Usage, fmt::format("cannot run '{}': it is not executable", name))
      .fact("requested", name, "command line")
      .hint(fmt::format("chmod +x {}", quote_for_shell(name)));
}

void require_port(const std::string& host, int port) {
  if (!is_free(host, port)) {
    throw Error(ExitCode::Unavailable, fmt::format("cannot use port {}: it is in use", port))
        .fact("requested",
              fmt::format("{}:{}", host.empty() ? "*" : host, port),
              "flag --master-port")
        .fact("found", "another program listens there", "this machine")
        .hint("omit --master-port to use a free port");
  }
}

// Each of several manually started launchers has its own plan, and --nproc-per-node can differ
// between nodes. A process without a node rank uses the first entry: all entries are equal then.
int own_workers(const plan::LaunchPlan& plan, const Join& join) {
  const auto node = static_cast<size_t>(plan.rendezvous.node.value_or(0));
  const int planned = plan.nodes.at(std::min(node, plan.nodes.size() - 1)).workers.value;
  if (plan.mode.value == plan::LaunchMode::Task) {
    return plan.rendezvous.local_world_size;
  }
  const bool is_counted_here = planned == 0 && plan.worker_rule != plan::WorkerRule::Number;
  return is_counted_here ? plan::count_by_rule(plan.worker_rule, join.cores, join.gpus) : planned;
}

void keep_addresses(Join& join, const std::string& wanted) {
  if (wanted.empty()) {
    return;
  }
  const std::vector<std::string> meant = os::addresses_of(wanted);
  std::vector<std::string> all;
  std::vector<cluster::Address> kept;
  for (const cluster::Address& address : join.addresses) {
    all.push_back(fmt::format("{} ({})", address.text, address.interface));
    if (address.interface == wanted ||
        std::find(meant.begin(), meant.end(), address.text) != meant.end()) {
      kept.push_back(address);
    }
  }
  if (kept.empty()) {
    throw Error(ExitCode::Usage,
                fmt::format("'{}' is not an address or interface of this host", wanted))
        .fact("requested", "--local-addr " + wanted, "command line")
        .fact("found", lockstep::join(all, ", "), "interfaces of this host")
        .hint("omit --local-addr: lockstep then finds a network that connects all nodes");
  }
  join.addresses = std::move(kept);
}

namespace {

// The GPUs or MIG slices of a node, as names for CUDA_VISIBLE_DEVICES.
struct VisibleGpus {
  std::vector<std::string> names;
  std::map<std::string, int> numbers;  // GPU of a name that is not a number itself
  bool has_slices = false;
};

// GPUs come from the first source that has any: devices that the plan selects (--include of
// deepspeed), CUDA_VISIBLE_DEVICES, all GPUs of the node. MIG slices replace the GPUs in the last
// two.
VisibleGpus list_visible(const plan::NodeSpec& spec, const os::Environment& environment) {
  VisibleGpus visible;
  for (const int gpu : spec.gpus) {
    visible.names.push_back(std::to_string(gpu));
  }
  if (!visible.names.empty()) {
    return visible;
  }
  const cluster::GpuDevices found = cluster::list_gpu_devices(environment);
  visible.has_slices = found.has_slices();
  if (const auto set = os::find_variable(environment, "CUDA_VISIBLE_DEVICES");
      set && !found.has_slices()) {
    visible.names = split(*set, ',');
  }
  if (visible.names.empty()) {
    for (const cluster::GpuDevice& device : found.devices) {
      visible.names.push_back(device.name);
      visible.numbers[device.name] = device.gpu;
    }
  }
  return visible;
}

}  // namespace

// Workers take GPUs round-robin, so that --share-gpus spreads them evenly. Without --bind gpu each
// worker sees all of them and selects its own by LOCAL_RANK, as programs for torchrun expect.
//
// With MIG, each worker sees its slice only, whatever --bind says: a process can use one slice, and
// CUDA would give all workers the first.
//
// A UUID in CUDA_VISIBLE_DEVICES has no number; such a worker gets cores without regard to the NUMA
// node of its GPU.
std::vector<WorkerDevices> place_workers(const plan::NodeSpec& spec,
                                         const os::Environment& environment) {
  std::vector<WorkerDevices> devices(static_cast<size_t>(spec.workers));
  const VisibleGpus visible = list_visible(spec, environment);
  std::vector<int> gpu_of_worker;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string own = visible.names.empty() ? "" : visible.names[i % visible.names.size()];
    const auto number = visible.numbers.find(own);
    gpu_of_worker.push_back(number != visible.numbers.end()
                                ? number->second
                                : static_cast<int>(find_integer(own).value_or(-1)));
    if (spec.bind == plan::Bind::Gpu || visible.has_slices) {
      devices[i].gpus = own;  // empty without a GPU
    } else if (!spec.gpus.empty()) {
      devices[i].gpus = join(visible.names, ",");
    }
  }
  if (spec.bind != plan::Bind::None) {
    const auto shares = cluster::share_cores(static_cast<int>(devices.size()), gpu_of_worker);
    for (size_t i = 0; i < devices.size(); ++i) {
      devices[i].cpus = shares.at(i);
    }
  }
  return devices;
}

// The argument goes directly behind the program and before its own arguments, where
// torch.distributed.launch and deepspeed put it.
std::vector<std::string> worker_arguments(const plan::NodeSpec& spec,
                                          const contract::WorkerSpec& worker_spec) {
  std::vector<std::string> arguments = spec.command;
  if (!spec.local_rank_flag.empty()) {
    const auto behind = std::min(static_cast<size_t>(spec.program_word) + 1, arguments.size());
    arguments.insert(arguments.begin() + static_cast<std::ptrdiff_t>(behind),
                     fmt::format("{}={}", spec.local_rank_flag, worker_spec.local_rank));
  }
  return arguments;
}

}  // namespace lockstep::supervisor
