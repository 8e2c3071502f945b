// SPDX-License-Identifier: Apache-2.0
//
// One worker, described in the words of every launcher that it replaces:
//
//   torchrun      RANK, LOCAL_RANK, GROUP_RANK, ROLE_*, TORCHELASTIC_*, MASTER_*
//   horovodrun    HOROVOD_RANK, HOROVOD_LOCAL_RANK, HOROVOD_CROSS_RANK, HOROVOD_GLOO_RENDEZVOUS_*
//   deepspeed     LOCAL_SIZE, CROSS_RANK, CROSS_SIZE
//   mpirun        OMPI_COMM_WORLD_*
//   TensorFlow    TF_CONFIG
//
// A program written for any of them runs unchanged. find_worker() reads only the first dialect
// back.
#include "common/contract/worker_env.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/contract/run_directory.h"
#include "lockstep/error.h"

namespace lockstep::contract {
namespace {

constexpr std::string_view kRank = "RANK";
constexpr std::string_view kWorldSize = "WORLD_SIZE";
constexpr std::string_view kLocalRank = "LOCAL_RANK";
constexpr std::string_view kLocalWorldSize = "LOCAL_WORLD_SIZE";
constexpr std::string_view kNodeRank = "GROUP_RANK";
constexpr std::string_view kNodes = "GROUP_WORLD_SIZE";
constexpr std::string_view kMasterAddr = "MASTER_ADDR";
constexpr std::string_view kMasterPort = "MASTER_PORT";
constexpr std::string_view kInterface = "LOCKSTEP_INTERFACE";
constexpr std::string_view kGlooInterface = "GLOO_SOCKET_IFNAME";
constexpr std::string_view kTorchRunId = "TORCHELASTIC_RUN_ID";
constexpr std::string_view kAgentStore = "TORCHELASTIC_USE_AGENT_STORE";
constexpr std::string_view kRunDirectory = "LOCKSTEP_RUN_DIR";
constexpr std::string_view kAttempt = "TORCHELASTIC_RESTART_COUNT";
constexpr std::string_view kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
constexpr std::string_view kErrorFile = "TORCHELASTIC_ERROR_FILE";
// A bound against nonsense, far above any real run; sums of two such numbers stay within int.
constexpr int kMaxWorkers = 1 << 20;
// PyTorch 2.4 and newer serve the rendezvous with libuv by default, and init_process_group() throws
// in a build without it, such as Debian's. Their older server polls all connections; the default of
// all earlier versions, it is fast enough for this many.
constexpr int kMaxWorkersWithoutLibuv = 1024;
// execve rejects a single string of more than 128 KiB; larger runs get no TF_CONFIG.
constexpr size_t kMaxTensorflowBytes = size_t{100} * 1024;

std::string text_or(const os::Environment& environment,
                    std::string_view name,
                    std::string_view fallback) {
  return os::find_variable(environment, name).value_or(std::string(fallback));
}

void require_below(std::string_view name, int value, std::string_view bound_name, int bound) {
  if (value >= bound) {
    throw Error(ExitCode::Usage, "cannot determine the rank of this worker: conflicting variables")
        .fact(name, std::to_string(value), "environment")
        .fact(bound_name, std::to_string(bound), "environment")
        .hint("lockstep run sets both; unset the one that is left over from another launcher");
  }
}

// Sets variables in one environment.
class Setter {
 public:
  explicit Setter(os::Environment& variables) : variables_(variables) {}

  void operator()(std::string_view name, std::string value) const {
    variables_.insert_or_assign(std::string(name), std::move(value));
  }
  void operator()(std::string_view name, int value) const { (*this)(name, std::to_string(value)); }

  // Does nothing for an empty value.
  void if_any(std::string_view name, const std::string& value) const {
    if (!value.empty()) {
      (*this)(name, value);
    }
  }

 private:
  os::Environment& variables_;
};

// The variables of torchrun, which include those of torch.distributed.launch.
void tell_torch(const WorkerSpec& spec, const Setter& set) {
  set(kRank, spec.rank);
  set(kWorldSize, spec.world_size);
  set(kLocalRank, spec.local_rank);
  set(kLocalWorldSize, spec.local_world_size);
  set(kNodeRank, spec.node_rank);
  set(kNodes, spec.nodes);
  set(kMasterAddr, spec.master_addr);
  set(kMasterPort, spec.master_port);
  set("ROLE_NAME", spec.role);
  // A run has one role, so that the role rank of a worker is its rank.
  set("ROLE_RANK", spec.rank);
  set("ROLE_WORLD_SIZE", spec.world_size);
  set(kTorchRunId, spec.run_id.empty() ? "none" : spec.run_id);
  set(kAttempt, spec.attempt);
  set(kMaxRestarts, spec.max_restarts);
  // Workers create their own store on MASTER_ADDR:MASTER_PORT; the agent does not provide one.
  set(kAgentStore, spec.has_agent_store ? "True" : "False");
  set.if_any(kErrorFile, spec.error_file);
}

void tell_horovod(const WorkerSpec& spec, const Setter& set) {
  set.if_any("HOROVOD_HOSTNAME", spec.node);
  set("HOROVOD_RANK", spec.rank);
  set("HOROVOD_SIZE", spec.world_size);
  set("HOROVOD_LOCAL_RANK", spec.local_rank);
  set("HOROVOD_LOCAL_SIZE", spec.local_world_size);
  set("HOROVOD_CROSS_RANK", spec.cross_rank);
  set("HOROVOD_CROSS_SIZE", spec.cross_size);
  if (spec.horovod_port != 0) {
    set("HOROVOD_GLOO_RENDEZVOUS_ADDR", spec.horovod_addr);
    set("HOROVOD_GLOO_RENDEZVOUS_PORT", spec.horovod_port);
  }
}

// In addition to those of torch.distributed.launch.
void tell_deepspeed(const WorkerSpec& spec, const Setter& set) {
  set("LOCAL_SIZE", spec.local_world_size);
  set("CROSS_RANK", spec.cross_rank);
  set("CROSS_SIZE", spec.cross_size);
}

// For programs that read their rank from these. MPI_Init uses other variables, which only mpirun
// sets.
void tell_open_mpi(const WorkerSpec& spec, const Setter& set) {
  set("OMPI_COMM_WORLD_RANK", spec.rank);
  set("OMPI_COMM_WORLD_SIZE", spec.world_size);
  set("OMPI_COMM_WORLD_LOCAL_RANK", spec.local_rank);
  set("OMPI_COMM_WORLD_LOCAL_SIZE", spec.local_world_size);
  // Among all processes of mpirun on the node. Since one run uses the node, the local rank.
  set("OMPI_COMM_WORLD_NODE_RANK", spec.local_rank);
  set("OMPI_UNIVERSE_SIZE", spec.world_size);
}

std::optional<std::string> find_tensorflow_config(const WorkerSpec& spec) {
  // Check the size first: otherwise every worker of a large run would build the text in vain.
  size_t bytes = 0;
  for (const std::string& worker : spec.tensorflow_cluster) {
    bytes += worker.size() + 3;
  }
  if (bytes == 0 || bytes > kMaxTensorflowBytes) {
    return std::nullopt;
  }
  const nlohmann::ordered_json config = {{"cluster", {{"worker", spec.tensorflow_cluster}}},
                                         {"task", {{"type", "worker"}, {"index", spec.rank}}}};
  std::string text = config.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  if (text.size() >= kMaxTensorflowBytes) {
    return std::nullopt;
  }
  return text;
}

}  // namespace

std::optional<int> find_number(const os::Environment& environment,
                               std::string_view name,
                               int minimum,
                               int maximum) {
  const auto text = os::find_variable(environment, name);
  if (!text) {
    return std::nullopt;
  }
  const auto value = lockstep::find_integer(*text);
  if (!value || *value < minimum || *value > maximum) {
    throw Error(ExitCode::Usage, fmt::format("invalid {}='{}'", name, *text))
        .fact("expected", fmt::format("a whole number from {} to {}", minimum, maximum))
        .fact("found", fmt::format("'{}'", *text), "environment")
        .hint(fmt::format("unset {}, or start the program with lockstep run", name));
  }
  return static_cast<int>(*value);
}

os::Environment to_environment(const WorkerSpec& spec) {
  os::Environment variables;
  const Setter set(variables);
  tell_torch(spec, set);
  tell_horovod(spec, set);
  tell_deepspeed(spec, set);
  tell_open_mpi(spec, set);
  if (auto text = find_tensorflow_config(spec)) {
    set("TF_CONFIG", std::move(*text));
  }
  set(kRunId, spec.run_id);
  set.if_any(kRunDirectory, spec.run_directory);
  set.if_any(kInterface, spec.interface);
  return variables;
}

os::Environment gentle_environment(const WorkerSpec& spec) {
  os::Environment variables;
  const Setter set(variables);
  // A failed collective ends its worker instead of blocking it forever, as in torchrun.
  set("TORCH_NCCL_ASYNC_ERROR_HANDLING", 1);
  if (spec.world_size <= kMaxWorkersWithoutLibuv) {
    set("USE_LIBUV", 0);
  }
  if (!spec.interface.empty()) {
    // NCCL treats a name without "=" as a prefix: "ib0" would also match "ib0.8001".
    set("NCCL_SOCKET_IFNAME", "=" + spec.interface);
    set(kGlooInterface, spec.interface);
    set("TP_SOCKET_IFNAME", spec.interface);
  }
  if (spec.roce_gid_index) {
    set("NCCL_IB_GID_INDEX", *spec.roce_gid_index);
  }
  if (spec.horovod_port != 0) {
    set("HOROVOD_CONTROLLER", "gloo");
    set("HOROVOD_CPU_OPERATIONS", "gloo");
    // Without an interface name, Horovod uses the address of the host name.
    set.if_any("HOROVOD_GLOO_IFACE",
               spec.interface.empty() && spec.nodes == 1 ? "lo" : spec.interface);
  }
  return variables;
}

int threads_per_worker(int cores, int local_world_size) {
  return std::max(1, cores / std::max(1, local_world_size));
}

WorkerSpec single_worker(const os::Environment& environment) {
  WorkerSpec spec;
  spec.master_addr = text_or(environment, kMasterAddr, "127.0.0.1");
  spec.interface = text_or(environment, kGlooInterface, text_or(environment, kInterface, ""));
  spec.run_id = text_or(environment, kRunId, text_or(environment, kTorchRunId, ""));
  spec.run_directory = text_or(environment, kRunDirectory, "");
  return spec;
}

std::optional<WorkerSpec> find_worker(const os::Environment& environment) {
  const auto rank = find_number(environment, kRank, 0, kMaxWorkers - 1);
  const auto world_size = find_number(environment, kWorldSize, 1, kMaxWorkers);
  if (!rank && !world_size) {
    return std::nullopt;
  }
  if (!rank || !world_size) {
    throw Error(ExitCode::Usage, "cannot determine the rank of this worker")
        .fact("found", rank ? kRank : kWorldSize, "environment")
        .fact("missing", rank ? kWorldSize : kRank, "environment")
        .hint("start the program with lockstep run, or unset both to run a single process");
  }
  WorkerSpec spec = single_worker(environment);
  spec.rank = *rank;
  spec.world_size = *world_size;
  // Other launchers set RANK and WORLD_SIZE only. Without local values, all workers count as
  // workers of one node.
  spec.local_rank = find_number(environment, kLocalRank, 0, kMaxWorkers - 1).value_or(*rank);
  spec.local_world_size =
      find_number(environment, kLocalWorldSize, 1, kMaxWorkers).value_or(*world_size);
  spec.node_rank = find_number(environment, kNodeRank, 0, kMaxWorkers - 1).value_or(0);
  spec.nodes = find_number(environment, kNodes, 1, kMaxWorkers)
                   .value_or((*world_size + spec.local_world_size - 1) / spec.local_world_size);
  // 29500 is the default of torchrun.
  spec.master_port = find_number(environment, kMasterPort, 0, 65535).value_or(29500);
  spec.has_agent_store = text_or(environment, kAgentStore, "") == "True";
  spec.attempt = find_number(environment, kAttempt, 0, std::numeric_limits<int>::max()).value_or(0);
  spec.max_restarts =
      find_number(environment, kMaxRestarts, 0, std::numeric_limits<int>::max()).value_or(0);
  // torchrun sets this variable, too, but does not know the format of lockstep. It may have started
  // `lockstep run`, so the file must be the one that an agent of this run reads.
  const std::string error_file = text_or(environment, kErrorFile, "");
  if (!spec.run_directory.empty() &&
      error_file == RunDirectory(spec.run_directory).error(spec.attempt, spec.rank).string()) {
    spec.error_file = error_file;
  }
  require_below(kRank, spec.rank, kWorldSize, spec.world_size);
  require_below(kLocalRank, spec.local_rank, kLocalWorldSize, spec.local_world_size);
  return spec;
}

}  // namespace lockstep::contract
