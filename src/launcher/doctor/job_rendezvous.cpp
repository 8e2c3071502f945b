// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/job_rendezvous.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

#include <nlohmann/json.hpp>

#include "common/base/text.h"
#include "common/contract/launcher_variables.h"
#include "common/contract/worker_env.h"
#include "common/os/socket.h"
#include "launcher/doctor/questions.h"
#include "launcher/doctor/survey.h"
#include "lockstep/error.h"

// `lockstep network`: the network choice of lockstep run, for scripts that use another launcher.
//
//   gather agents -> connection trials -> RoCE GIDs -> free port on node 0 -> release agents
//
// The agents have left when the variables are printed. Between that moment and the start of the
// other launcher, another program can take the port; the window is the same as for any launcher
// that chooses a port in advance.
namespace lockstep::doctor {
namespace {

// kPatience covers the start of a step on a busy controller; answers afterwards take milliseconds.
constexpr std::chrono::seconds kPatience(30);
constexpr std::chrono::seconds kAnswerTime(5);
constexpr const char* kGidIndex = "NCCL_IB_GID_INDEX";
constexpr const char* kMasterPort = "MASTER_PORT";
constexpr const char* kLibuv = "USE_LIBUV";

// MASTER_PORT of the user; 0: none. An empty MASTER_PORT counts as not set: scripts reset variables
// in this way.
int wanted_port(const os::Environment& environment) {
  constexpr int kMaxPort = 65535;
  const auto text = os::find_variable(environment, kMasterPort);
  return text && !text->empty()
             ? contract::find_number(environment, kMasterPort, 1, kMaxPort).value_or(0)
             : 0;
}

[[noreturn]] void refuse_port(int port, const std::string& node) {
  throw Error(ExitCode::Unavailable, fmt::format("port {} is in use", port))
      .fact(kMasterPort, std::to_string(port), "environment")
      .fact("found", "another program listens on it", node)
      .hint(fmt::format("unset {} to use a free port", kMasterPort));
}

// Without a job there is nothing to gather: no agent is started, and the port is found here.
JobRendezvous local_rendezvous(const plan::LaunchPlan& plan, const os::Environment& environment) {
  const std::string& name = plan.nodes.front().name;
  const int wanted = wanted_port(environment);
  if (wanted != 0 && !os::is_port_free("127.0.0.1", wanted)) {
    refuse_port(wanted, name);
  }
  return {.network = "",
          .reason = "loopback: only one node",
          .details = {},
          .nodes = {{.name = name, .address = "127.0.0.1", .interface = "", .roce_gid = {}}},
          .port = wanted != 0 ? wanted : os::free_port()};
}

void gather(Survey& survey) {
  const std::string fault = survey.gather(kPatience);
  if (const auto without = survey.unreachable(); !without.empty()) {
    throw Error(ExitCode::Unavailable, "cannot start an agent on " + join(without, ", "))
        .fact("found", fault, "srun")
        .hint("lockstep doctor, in this job; sbatch --exclude=" + join(without, ","));
  }
  if (!fault.empty()) {
    throw Error(ExitCode::Unavailable, "cannot start the agents: " + fault);
  }
  if (const auto missing = survey.missing(); !missing.empty()) {
    constexpr size_t kMaxNamed = 8;
    throw Error(
        ExitCode::Unavailable,
        fmt::format(
            "no answer from {} within {} s", name_some(missing, kMaxNamed), kPatience.count()))
        .hint("lockstep doctor, in this job");
  }
}

// rendezvous.nodes has one entry per node, in the order of node ranks, and is indexed by node
// below. This requires that all nodes are present, which gather() has checked.
void take_network(JobRendezvous& rendezvous,
                  Survey& survey,
                  const std::vector<std::string>& interfaces) {
  const plan::NetworkChoice choice = survey.try_networks(interfaces);
  if (!choice.network) {
    std::string text = "no usable network for this job: " + choice.reason;
    for (const std::string& line : choice.details) {
      text += "\n  " + line;
    }
    throw Error(ExitCode::Unavailable, text);
  }
  rendezvous.network = survey.trials().networks().at(static_cast<size_t>(*choice.network)).name;
  rendezvous.reason = choice.reason;
  rendezvous.details = choice.details;
  int slot = 0;
  for (const int node : survey.present()) {
    const cluster::Address& address = survey.trials().address_of(slot++, *choice.network);
    rendezvous.nodes.push_back({.name = survey.offer_of(node).name,
                                .address = address.text,
                                .interface = address.is_loopback ? "" : address.interface,
                                .roce_gid = {}});
  }
  const auto answers = survey.ask(
      [&rendezvous](int node) {
        return gid_question(rendezvous.nodes.at(static_cast<size_t>(node)).interface);
      },
      kAnswerTime);
  for (const auto& [node, text] : answers) {
    rendezvous.nodes.at(static_cast<size_t>(node)).roce_gid = find_gid(text);
  }
}

JobRendezvous rendezvous_in_job(const plan::LaunchPlan& plan,
                                const os::Environment& environment,
                                const std::vector<std::string>& interfaces) {
  JobRendezvous rendezvous;
  Survey survey(plan, environment);
  gather(survey);
  if (plan.nodes.size() == 1) {
    rendezvous.reason = "loopback: only one node";
    rendezvous.nodes = {
        {.name = survey.offer_of(0).name, .address = "127.0.0.1", .interface = "", .roce_gid = {}}};
  } else {
    take_network(rendezvous, survey, interfaces);
  }
  const int wanted = wanted_port(environment);
  try {
    rendezvous.port = survey.find_port(0, "", wanted);
  } catch (const Error&) {
    if (wanted != 0) {
      refuse_port(wanted, rendezvous.nodes.front().name);
    }
    throw;
  }
  survey.finish();
  return rendezvous;
}

// Name of the interface; empty if it differs between nodes. The variables are exported once, in the
// batch script, and srun passes the same values to all nodes. A value that differs between nodes
// can therefore not be expressed.
std::string common_interface(const JobRendezvous& rendezvous) {
  const std::string& first = rendezvous.nodes.front().interface;
  const bool is_common = std::all_of(
      rendezvous.nodes.begin(), rendezvous.nodes.end(), [&first](const RendezvousNode& node) {
        return node.interface == first;
      });
  return is_common ? first : "";
}

std::optional<int> common_gid(const JobRendezvous& rendezvous) {
  const auto& first = rendezvous.nodes.front().roce_gid;
  const bool is_common = std::all_of(
      rendezvous.nodes.begin(), rendezvous.nodes.end(), [&first](const RendezvousNode& node) {
        return node.roce_gid == first;
      });
  return is_common ? first : std::nullopt;
}

std::vector<std::string> interfaces_of(const JobRendezvous& rendezvous) {
  std::set<std::string> names;
  for (const RendezvousNode& node : rendezvous.nodes) {
    names.insert(node.interface);
  }
  return {names.begin(), names.end()};
}

// The variables are those of `lockstep run`, but one set must fit all nodes. Without a common name,
// NCCL accepts a list: "=a,b" matches the interfaces exactly, and each node uses the one that it
// has. Gloo and Horovod accept one name only and stay unset. Open MPI accepts a network in CIDR
// notation, which is the same on all nodes.
void add_worker_variables(OrderedVariables& variables,
                          const JobRendezvous& rendezvous,
                          int world_size) {
  contract::WorkerSpec worker;
  worker.nodes = static_cast<int>(rendezvous.nodes.size());
  worker.world_size = world_size;
  worker.interface = common_interface(rendezvous);
  worker.roce_gid_index = common_gid(rendezvous);
  worker.horovod_port = rendezvous.port;  // the Horovod variable is only set with a port
  os::Environment reported = contract::gentle_environment(worker);
  const std::vector<std::string> names = interfaces_of(rendezvous);
  if (worker.interface.empty() && rendezvous.nodes.size() > 1 && names.size() > 1) {
    reported.insert_or_assign("NCCL_SOCKET_IFNAME", "=" + join(names, ","));
  }
  const auto add = [&](const std::string& name) {
    if (const auto value = reported.find(name); value != reported.end()) {
      variables.emplace_back(name, value->second);
    }
  };
  for (const std::string_view name : contract::kInterfaceVariables) {
    add(std::string(name));
  }
  add(kGidIndex);
  add(kLibuv);
  if (rendezvous.nodes.size() > 1) {
    const std::string& open_mpi = worker.interface.empty() ? rendezvous.network : worker.interface;
    if (!open_mpi.empty()) {
      variables.emplace_back("OMPI_MCA_btl_tcp_if_include", open_mpi);
      variables.emplace_back("OMPI_MCA_oob_tcp_if_include", open_mpi);
    }
  }
}

// The workers of the job as far as it is known: other launchers can start several in each task.
int least_workers(const JobRendezvous& rendezvous, const os::Environment& environment) {
  constexpr int kMost = 1'000'000;
  const int nodes = static_cast<int>(rendezvous.nodes.size());
  return std::max(nodes, contract::find_number(environment, "SLURM_NTASKS", 1, kMost).value_or(1));
}

}  // namespace

JobRendezvous choose_rendezvous(const plan::LaunchPlan& plan,
                                const os::Environment& environment,
                                const std::vector<std::string>& interfaces) {
  switch (plan.mode.value) {
    case plan::LaunchMode::Local:
      return local_rendezvous(plan, environment);
    case plan::LaunchMode::Srun:
      return rendezvous_in_job(plan, environment, interfaces);
    default:
      throw Error(ExitCode::Usage, "lockstep network must not run inside a step with several tasks")
          .fact("found", plan::describe(plan.mode.value), plan::describe(plan.mode.source))
          .hint("network=$(lockstep network) || exit; eval \"$network\", before srun or mpirun");
  }
}

// A value of the user wins, even an empty one, except for MASTER_ADDR and MASTER_PORT: torchrun and
// torch.distributed fail with an empty address. LOCKSTEP_NODES and LOCKSTEP_ADDRESSES are results
// and always replaced.
OrderedVariables variables_of(const JobRendezvous& rendezvous, const os::Environment& environment) {
  std::vector<std::string> names;
  std::vector<std::string> addresses;
  for (const RendezvousNode& node : rendezvous.nodes) {
    names.push_back(node.name);
    addresses.push_back(node.address);
  }
  OrderedVariables variables = {{"MASTER_ADDR", rendezvous.nodes.front().address},
                                {kMasterPort, std::to_string(rendezvous.port)}};
  add_worker_variables(variables, rendezvous, least_workers(rendezvous, environment));
  for (auto& [name, value] : variables) {
    const auto set = os::find_variable(environment, name);
    const bool is_master = name.starts_with("MASTER_");
    if (set && (!is_master || !set->empty())) {
      value = *set;
    }
  }
  variables.emplace_back("LOCKSTEP_NODES", join(names, " "));
  variables.emplace_back("LOCKSTEP_ADDRESSES", join(addresses, " "));
  return variables;
}

std::vector<std::string> remarks_on(const JobRendezvous& rendezvous) {
  std::vector<std::string> remarks;
  const std::vector<std::string> names = interfaces_of(rendezvous);
  if (names.size() > 1) {
    remarks.push_back(fmt::format(
        "the interface has different names ({}): GLOO_SOCKET_IFNAME and related variables are not "
        "set; lockstep run sets them on each node",
        join(names, ", ")));
  }
  std::set<std::optional<int>> gids;
  for (const RendezvousNode& node : rendezvous.nodes) {
    gids.insert(node.roce_gid);
  }
  if (gids.size() > 1) {
    remarks.push_back(fmt::format(
        "the RoCE GIDs have different indices: {} is not set; lockstep run sets it on each node",
        kGidIndex));
  }
  return remarks;
}

std::string to_shell(const OrderedVariables& variables) {
  std::string text;
  for (const auto& [name, value] : variables) {
    text += fmt::format("export {}={}\n", name, quote_for_shell(value));
  }
  return text;
}

std::string to_json(const JobRendezvous& rendezvous, const OrderedVariables& variables) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array();
  for (const RendezvousNode& node : rendezvous.nodes) {
    nodes.push_back({{"name", node.name},
                     {"address", node.address},
                     {"interface", node.interface},
                     {"roce_gid", node.roce_gid ? Json(*node.roce_gid) : Json(nullptr)}});
  }
  Json reported = Json::object();
  for (const auto& [name, value] : variables) {
    reported[name] = value;
  }
  return Json{{"network", rendezvous.network},
              {"reason", rendezvous.reason},
              {"details", rendezvous.details},
              {"nodes", nodes},
              {"variables", reported}}
             .dump(2, ' ', false, Json::error_handler_t::replace) +
         "\n";
}

}  // namespace lockstep::doctor
