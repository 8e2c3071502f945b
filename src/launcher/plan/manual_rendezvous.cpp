// SPDX-License-Identifier: Apache-2.0
//
// Every node makes its own plan from its own command line. The plans must lead to the same
// rendezvous without communication, so its name is derived only from values that are the same on
// all nodes: the endpoint, or the Slurm step.
//
//   --rdzv-endpoint HOST[:29400]          node 0 leads; without node ranks, the machine HOST
//   --node-rank N --master-addr HOST      node 0 leads, port 29500 unless --master-port is given
//   --node-rank N in a Slurm step         node 0 leads; its address comes from a file
#include "launcher/plan/manual_rendezvous.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::plan {
namespace {

// The default ports of torchrun: --rdzv-endpoint without a port, and --master-addr.
constexpr int kElasticPort = 29400;
constexpr int kStaticPort = 29500;

// Whether srun has started exactly one task on each of these nodes.
bool is_step_of(const HostEnvironment& here, int nodes) {
  return !here.is_nested && here.step && here.step->tasks == nodes &&
         here.step->nodes.size() == static_cast<size_t>(nodes);
}

// The number of this node according to the launcher that started all of them.
std::optional<int> find_outer_node(const HostEnvironment& here, int nodes) {
  if (is_step_of(here, nodes)) {
    return here.step->node;
  }
  if (!here.is_nested && here.task && here.task->size == nodes && here.task->local_size == 1) {
    return here.task->rank;
  }
  return std::nullopt;
}

void require_one_task_per_node(const HostEnvironment& here, const NodeRange& requested) {
  if (here.is_nested || !here.step || here.step->tasks <= requested.maximum) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("cannot form a rendezvous of {} nodes: Slurm started {} tasks",
                          requested.maximum,
                          here.step->tasks))
      .fact("requested", requested.provenance.text, requested.provenance.source)
      .fact("found",
            fmt::format("{} tasks", here.step->tasks),
            fmt::format("Slurm step {}.{}", here.step->job_id, here.step->id))
      .hint("srun --ntasks-per-node=1 in front of the same command")
      .hint("drop --nnodes, --rdzv-endpoint and --node-rank: Slurm provides them");
}

// A node rank that the batch script computed before srun has the same value on every node.
void require_same_node(const Request& request, const HostEnvironment& here, int node, int nodes) {
  const auto outer = find_outer_node(here, nodes);
  if (!request.node_rank || !outer || *outer == node) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("--node-rank {} is wrong: this is node {}", node, *outer))
      .fact("requested", said(*request.node_rank, "--node-rank"), request.node_rank->source)
      .fact("found",
            fmt::format("node {} of {}", *outer, nodes),
            here.step ? "SLURM_NODEID" : here.task->launcher)
      .hint("drop --node-rank: Slurm or the launcher provides it")
      .hint(
          "srun bash -c 'lockstep run --node-rank $SLURM_NODEID ...': without quotes, the batch "
          "script inserts its own number");
}

std::optional<int> find_node(const Request& request,
                             const HostEnvironment& here,
                             const RendezvousOptions& rules,
                             int nodes) {
  if (request.node_rank) {
    const int node =
        read_number(
            *request.node_rank,
            {.flag = "--node-rank", .minimum = 0, .maximum = nodes - 1, .hint = "--node-rank 0"})
            .value;
    require_same_node(request, here, node, nodes);
    return node;
  }
  if (rules.node && *rules.node >= nodes) {
    throw invalid_value(*request.rdzv_conf,
                        "--rdzv-conf",
                        fmt::format("a rank below {}, the number of nodes", nodes))
        .hint("--node-rank 0, without rank in --rdzv-conf");
  }
  return rules.node ? rules.node : find_outer_node(here, nodes);
}

// The address on which node 0 listens for the other nodes.
Endpoint find_endpoint(const Request& request) {
  if (request.rdzv_endpoint) {
    Endpoint endpoint = read_endpoint(*request.rdzv_endpoint);
    endpoint.port = endpoint.port.value_or(kElasticPort);
    if (endpoint.port == 0) {
      throw invalid_value(*request.rdzv_endpoint,
                          "--rdzv-endpoint",
                          "a fixed port, because several nodes must know it")
          .hint(fmt::format("--rdzv-endpoint {}:{}", endpoint.host, kElasticPort));
    }
    return endpoint;
  }
  Endpoint endpoint;
  endpoint.host = read_host(*request.master_addr, "--master-addr");
  endpoint.port = kStaticPort;
  if (request.master_port) {
    endpoint.port = read_number(*request.master_port,
                                {.flag = "--master-port",
                                 .minimum = 1,
                                 .maximum = 65535,
                                 .hint = fmt::format("--master-port {}", kStaticPort)})
                        .value;
  }
  return endpoint;
}

Source source_of_hand(const Request& request) {
  if (request.rdzv_endpoint) {
    return source_of(*request.rdzv_endpoint, "--rdzv-endpoint");
  }
  return request.node_rank ? source_of(*request.node_rank, "--node-rank")
                           : source_of(*request.master_addr, "--master-addr");
}

}  // namespace

bool is_manual(const Request& request, const HostEnvironment& here, const Sizes& sizes) {
  if (!sizes.nodes || sizes.nodes->maximum < 2) {
    return false;
  }
  const bool is_alone = here.is_nested || (!here.task && !here.step && !here.job);
  if (request.rdzv_endpoint) {
    return true;
  }
  // An outer launcher provides the address of node 0. Without one, the user must.
  return request.node_rank || (request.master_addr && is_alone);
}

LaunchTarget manual_target(const Request& request,
                           const HostEnvironment& here,
                           const Sizes& sizes,
                           const RendezvousOptions& rules) {
  const int nodes = sizes.nodes->maximum;
  require_one_task_per_node(here, *sizes.nodes);
  LaunchTarget target{.mode = {LaunchMode::Peers, source_of_hand(request)},
                      .hosts = std::vector<cluster::Host>(static_cast<size_t>(nodes)),
                      .named_by = sizes.nodes->provenance.text,
                      .min_nodes = sizes.nodes->minimum,
                      .rendezvous = {},
                      .is_manual = true};
  target.rendezvous.node = find_node(request, here, rules, nodes);
  for (size_t i = 0; is_step_of(here, nodes) && i < target.hosts.size(); ++i) {
    target.hosts[i].name = here.step->nodes[i];
  }
  if (target.rendezvous.node) {
    target.hosts.at(static_cast<size_t>(*target.rendezvous.node)).name = here.node;
  }
  if (!request.rdzv_endpoint && !request.master_addr) {
    if (!is_step_of(here, nodes)) {
      throw Error(ExitCode::Usage, "the address of node 0 is not known")
          .fact("requested", said(*request.node_rank, "--node-rank"), request.node_rank->source)
          .fact("expected", "--master-addr HOST, the host of node 0")
          .hint(fmt::format("{} --nnodes {} --node-rank {} --master-addr HOST PROGRAM",
                            command_of(request.dialect),
                            nodes,
                            request.node_rank->text));
    }
    target.rendezvous.name = fmt::format("slurm-{}.{}", here.step->job_id, here.step->id);
    return target;
  }
  const Endpoint endpoint = find_endpoint(request);
  target.rendezvous.host = endpoint.host;
  target.rendezvous.port = *endpoint.port;
  target.rendezvous.name = fmt::format("{}:{}", endpoint.host, *endpoint.port);
  return target;
}

}  // namespace lockstep::plan
