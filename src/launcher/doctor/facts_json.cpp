// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/facts_json.h"

#include "lockstep/error.h"

// Unknown, no and yes are the numbers -1, 0 and 1.
template <>
struct nlohmann::adl_serializer<std::optional<bool>> {
  static void to_json(json& json, const std::optional<bool>& value) {
    json = value ? static_cast<int>(*value) : -1;
  }
  static void from_json(const json& json, std::optional<bool>& value) {
    const int number = json.get<int>();
    value = number < 0 ? std::nullopt : std::optional(number != 0);
  }
};

namespace lockstep::plan {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Trial, from, to, network, fault, milliseconds)
}  // namespace lockstep::plan

namespace lockstep::doctor {

// All members are required when parsing. srun starts the executable of the caller on every node, so
// both sides normally have the same members; a node with another version at that path causes an
// Error.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(InterfaceFact, name, state, speed_mbps, mtu, is_rdma, addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GidFact, index, gid, type, interface)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RdmaPortFact, device, port, state, link_layer, rate, gids)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    GpuFact, name, memory_bytes, ecc, persistence, uncorrected_errors)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuFacts,
                                   has_nvml,
                                   fault,
                                   driver,
                                   cuda_of_driver,
                                   gpus,
                                   device_files,
                                   is_visible_set,
                                   visible,
                                   granted,
                                   slices,
                                   no_slices,
                                   mps)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SoftwareFact, version, where)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PythonFacts, python, torch, cuda, nccl, backends, fault)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SoftwareFacts, cuda, nccl, mpi, mpi_kind, libtorch, python)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LimitFacts,
                                   cores_usable,
                                   cores_online,
                                   cores_granted,
                                   memory_limit,
                                   memory_total,
                                   shm_total,
                                   shm_free,
                                   open_files,
                                   most_open_files,
                                   locked_bytes,
                                   processes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SpaceFact, path, total, free)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EnvironmentFacts,
                                   container,
                                   container_name,
                                   user_namespaces,
                                   has_fuse,
                                   modules,
                                   module_script,
                                   has_module_command,
                                   virtual_env,
                                   conda,
                                   proxies,
                                   temp,
                                   home,
                                   sees_home,
                                   sees_directory)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NodeFacts,
                                   name,
                                   interfaces,
                                   resolved,
                                   can_listen,
                                   is_29500_free,
                                   rdma,
                                   gpu,
                                   software,
                                   limits,
                                   place)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PartitionFact, name, state, time_limit, nodes, gpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SlurmFacts,
                                   version,
                                   controller,
                                   is_controller_up,
                                   partitions,
                                   mpi_types,
                                   fault_of_job,
                                   is_in_job,
                                   is_in_step,
                                   variables)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ClockFact, offset, precision)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CrossNodeFacts,
                                   nodes,
                                   missing,
                                   fault,
                                   silent,
                                   networks,
                                   trials,
                                   addresses,
                                   chosen,
                                   reason,
                                   details,
                                   clocks)

nlohmann::json json_of(const NodeFacts& facts) {
  return facts;
}

nlohmann::json json_of(const SlurmFacts& facts) {
  return facts;
}

nlohmann::json json_of(const CrossNodeFacts& facts) {
  return facts;
}

std::string to_json_text(const NodeFacts& facts) {
  return json_of(facts).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

NodeFacts parse_node_facts(const std::string& text) {
  try {
    return nlohmann::json::parse(text).get<NodeFacts>();
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Bug, "invalid facts from a node").fact("reason", fault.what());
  }
}

}  // namespace lockstep::doctor
