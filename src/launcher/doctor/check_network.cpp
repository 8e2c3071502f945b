// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>

#include "common/base/median.h"
#include "common/base/text.h"
#include "launcher/doctor/finding.h"

// Four independent questions about the network of a job:
//
//   check_reachability   does each network connect the nodes?        (connection trials)
//   check_choice         which one would lockstep run use?           (rule of plan::choose_network)
//   check_uneven         do some nodes lack an interface?            (/sys/class/net)
//   check_names          do host names lead to reachable addresses?  (getent on each node)
//
// A network that fails is a warning only, because lockstep run avoids it. It is broken only if no
// network is left. Other launchers and libraries do not test: they use the address that the host
// name resolves to (torchrun, Gloo) or choose interfaces by name (NCCL). The advice is written for
// them.
namespace lockstep::doctor {
namespace {

constexpr size_t kMaxNamed = 6;

Finding of_network(Severity severity, std::string subject, std::string text, std::string source) {
  return {.section = Section::Network,
          .severity = severity,
          .subject = std::move(subject),
          .text = std::move(text),
          .source = std::move(source),
          .advice = {}};
}

// Results of the connection trials between pairs of nodes.
class Outcomes {
 public:
  explicit Outcomes(const CrossNodeFacts& cross_node) : cross_node_(cross_node) {}

  // Result from one node to another; nullptr if it was not tried. A success beats failures. There
  // can be two results for one pair, because NetworkTrials repeats with a longer timeout if no
  // network has passed the first round. Up to 32 nodes all pairs are tried, above that a few per
  // node (plan::peers_to_try), so most pairs of a large job have no result.
  const plan::Trial* find(int network, int from, int to) const {
    const plan::Trial* found = nullptr;
    for (const plan::Trial& trial : cross_node_.trials) {
      const bool is_it = trial.network == network && trial.from == from && trial.to == to;
      if (is_it && (found == nullptr || trial.fault.empty())) {
        found = &trial;
      }
    }
    return found;
  }

  int failed(int network) const {
    int count = 0;
    for (int from = 0; from < size(); ++from) {
      for (int to = 0; to < size(); ++to) {
        const plan::Trial* trial = find(network, from, to);
        count += trial != nullptr && !trial->fault.empty() ? 1 : 0;
      }
    }
    return count;
  }

  // The isolated node, without any connection from or to it. Empty unless there is exactly one.
  // With two nodes, a broken link isolates both, and it is unknown which one is at fault.
  std::optional<int> find_cut_off(int network) const {
    std::optional<int> cut_off;
    for (int node = 0; node < size(); ++node) {
      if (is_cut_off(network, node)) {
        if (cut_off) {
          return std::nullopt;
        }
        cut_off = node;
      }
    }
    return size() > 2 ? cut_off : std::nullopt;
  }

  int size() const { return static_cast<int>(cross_node_.nodes.size()); }

 private:
  bool is_cut_off(int network, int node) const {
    bool has_tried = false;
    for (int other = 0; other < size(); ++other) {
      for (const plan::Trial* trial : {find(network, node, other), find(network, other, node)}) {
        if (trial != nullptr && trial->fault.empty()) {
          return false;
        }
        has_tried = has_tried || trial != nullptr;
      }
    }
    return has_tried;
  }

  const CrossNodeFacts& cross_node_;
};

std::string cell(const plan::Trial* trial, bool is_self) {
  if (is_self) {
    return "-";
  }
  return trial == nullptr ? "." : (trial->fault.empty() ? "ok" : "NO");
}

// Table of connections from the rows to the columns.
//
// Names are cut to their first eight columns to limit the width. There is no table for more than
// ten nodes.
//
//   "-" the node itself   "." not tried   "ok"   "NO" failed
std::vector<std::string> matrix(const CrossNodeFacts& cross_node,
                                const Outcomes& outcomes,
                                int network) {
  constexpr size_t kMaxNodes = 10;
  std::vector<std::string> lines;
  if (cross_node.nodes.size() > kMaxNodes) {
    return lines;
  }
  size_t width = 2;
  for (const std::string& name : cross_node.nodes) {
    width = std::max(width, name.size());
  }
  width = std::min<size_t>(width, 8);
  std::string head = fmt::format("{:>{}.{}}", "", width, width);
  for (const std::string& name : cross_node.nodes) {
    head += fmt::format(" {:>{}.{}}", name, width, width);
  }
  lines.push_back(head);
  for (int from = 0; from < outcomes.size(); ++from) {
    std::string line =
        fmt::format("{:>{}.{}}", cross_node.nodes[static_cast<size_t>(from)], width, width);
    for (int to = 0; to < outcomes.size(); ++to) {
      line += fmt::format(" {:>{}}", cell(outcomes.find(network, from, to), from == to), width);
    }
    lines.push_back(line);
  }
  return lines;
}

void check_reachability(Findings& findings, const CrossNodeFacts& cross_node) {
  const Outcomes outcomes(cross_node);
  std::vector<std::string> shown;
  for (size_t i = 0; i < cross_node.networks.size(); ++i) {
    const int network = static_cast<int>(i);
    const int failed = outcomes.failed(network);
    Finding finding =
        of_network(Severity::Ok,
                   cross_node.networks[i],
                   fmt::format("all {} nodes reach each other", cross_node.nodes.size()),
                   "connection test");
    if (failed > 0) {
      const auto cut_off = outcomes.find_cut_off(network);
      finding.severity = Severity::Warning;
      finding.text = cut_off ? fmt::format("{} is isolated: no connection from or to other nodes",
                                           cross_node.nodes[static_cast<size_t>(*cut_off)])
                             : fmt::format("{} connections failed", failed);
      finding.advice.emplace_back(
          cross_node.chosen >= 0
              ? "eval \"$(lockstep network)\" in job scripts, so that libraries avoid it; lockstep "
                "run avoids it automatically"
              : "ask the administrators to open it between compute nodes");
      // IPv6 on the same interface usually has the same result; do not repeat an equal table.
      std::vector<std::string> table = matrix(cross_node, outcomes, network);
      if (table != shown) {
        finding.table = table;
        shown = std::move(table);
      }
    }
    findings.push_back(std::move(finding));
  }
}

void check_choice(Findings& findings, const CrossNodeFacts& cross_node) {
  if (cross_node.nodes.size() < 2) {
    return;
  }
  if (cross_node.chosen >= 0) {
    findings.push_back(
        of_network(Severity::Ok, "choice", cross_node.reason, "rule of lockstep run"));
    return;
  }
  Finding finding =
      of_network(Severity::Broken, "choice", cross_node.reason, "rule of lockstep run");
  finding.advice.emplace_back("report the lines above to the administrators");
  finding.table = cross_node.details;
  findings.push_back(std::move(finding));
}

// What is wrong with the addresses of a host name; empty if one of them works. An address that
// belongs to a tested network is judged by the trial. A pair that was not tried counts as
// reachable, because in a large job only some pairs are tried. An address in none of the tested
// networks (a loopback, or a network that not all nodes have) counts as unreachable.
std::string fault_of_name(const CrossNodeFacts& cross_node,
                          const std::vector<std::string>& addresses,
                          int from,
                          int to) {
  if (addresses.empty()) {
    return "does not resolve";
  }
  const Outcomes outcomes(cross_node);
  for (const std::string& address : addresses) {
    for (size_t i = 0; i < cross_node.addresses.size(); ++i) {
      const bool is_it = cross_node.addresses[i].at(static_cast<size_t>(to)) == address;
      const plan::Trial* trial = is_it ? outcomes.find(static_cast<int>(i), from, to) : nullptr;
      if (is_it && (trial == nullptr || trial->fault.empty())) {
        return "";
      }
    }
  }
  const bool is_loopback =
      std::any_of(addresses.begin(), addresses.end(), [](const std::string& address) {
        return address.starts_with("127.") || address == "::1";
      });
  const std::string all = join(addresses, ", ");
  return is_loopback ? fmt::format("resolves to a loopback address ({})", all)
                     : fmt::format("resolves to {}, which is unreachable", all);
}

// The name of the node itself is skipped: Debian maps it to 127.0.1.1 in /etc/hosts, which is
// correct on that node. The same entry on another node is a fault.
void check_names(Findings& findings, const Facts& facts) {
  const CrossNodeFacts& cross_node = facts.cross_node;
  std::vector<std::string> faults;
  bool has_names = false;
  for (const NodeFacts& node : facts.nodes) {
    const auto from = std::find(cross_node.nodes.begin(), cross_node.nodes.end(), node.name);
    for (size_t to = 0; to < cross_node.nodes.size(); ++to) {
      const auto resolved = node.resolved.find(cross_node.nodes[to]);
      if (from == cross_node.nodes.end() || cross_node.nodes[to] == node.name ||
          resolved == node.resolved.end()) {
        continue;
      }
      has_names = true;
      const std::string fault = fault_of_name(cross_node,
                                              resolved->second,
                                              static_cast<int>(from - cross_node.nodes.begin()),
                                              static_cast<int>(to));
      if (!fault.empty()) {
        faults.push_back(fmt::format("on {}, {} {}", node.name, cross_node.nodes[to], fault));
      }
    }
  }
  if (!has_names) {
    return;
  }
  if (faults.empty()) {
    findings.push_back(of_network(
        Severity::Ok, "host names", "all names resolve to reachable addresses", "getent"));
    return;
  }
  Finding finding = of_network(
      Severity::Warning,
      "host names",
      name_some(faults, 3) + "; MASTER_ADDR=$(hostname) fails (lockstep run uses addresses)",
      "getent");
  finding.advice.emplace_back("network=$(lockstep network) || exit; eval \"$network\"");
  findings.push_back(std::move(finding));
}

// Compares interfaces by name. Nodes of the same type have the same names; a cluster with mixed
// types can produce a false warning, which is limited to interfaces that at least half of the nodes
// have.
bool has_address_on(const NodeFacts& node, const std::string& interface) {
  return std::any_of(
      node.interfaces.begin(), node.interfaces.end(), [&interface](const InterfaceFact& one) {
        return one.name == interface && !one.addresses.empty();
      });
}

std::string state_of(const NodeFacts& node, const std::string& interface) {
  for (const InterfaceFact& one : node.interfaces) {
    if (one.name == interface) {
      return one.state == "up" ? "no address" : one.state;
    }
  }
  return "no such interface";
}

// Finds interfaces that most nodes have but some lack, usually because of a cable. Such a network
// does not connect all nodes, so it was not tested.
void check_uneven(Findings& findings, const std::vector<NodeFacts>& nodes) {
  std::map<std::string, size_t> owners;
  for (const NodeFacts& node : nodes) {
    for (const InterfaceFact& one : node.interfaces) {
      owners[one.name] += one.addresses.empty() ? 0 : 1;
    }
  }
  for (const auto& [interface, count] : owners) {
    if (count == nodes.size() || count * 2 < nodes.size() || count == 0) {
      continue;
    }
    std::vector<std::string> without;
    for (const NodeFacts& node : nodes) {
      if (!has_address_on(node, interface)) {
        without.push_back(fmt::format("{} ({})", node.name, state_of(node, interface)));
      }
    }
    Finding finding = of_network(Severity::Warning,
                                 interface,
                                 fmt::format("{} of {} nodes have it; missing on: {}",
                                             count,
                                             nodes.size(),
                                             name_some(without, kMaxNamed)),
                                 "/sys/class/net");
    finding.advice.push_back(
        fmt::format("ip addr show {}, on that node; or sbatch --exclude", interface));
    findings.push_back(std::move(finding));
  }
}

std::string speed_text(int mbps) {
  if (mbps == 0) {
    return "unknown speed";
  }
  return mbps < 1000 ? fmt::format("{} Mb/s", mbps) : fmt::format("{:g} Gb/s", mbps / 1000.0);
}

}  // namespace

Findings check_network(const Facts& facts) {
  Findings findings;
  check_reachability(findings, facts.cross_node);
  check_choice(findings, facts.cross_node);
  check_uneven(findings, facts.nodes);
  check_names(findings, facts);
  return findings;
}

Findings check_interfaces(const NodeFacts& node) {
  Findings findings;
  std::vector<std::string> texts;
  for (const InterfaceFact& one : node.interfaces) {
    // Skip the loopback and interfaces that are down and have no address, such as unused tunnels.
    if (one.name == "lo" || (one.addresses.empty() && one.state != "up")) {
      continue;
    }
    texts.push_back(fmt::format("{} {}, {}, MTU {}{}",
                                one.name,
                                one.state,
                                speed_text(one.speed_mbps),
                                one.mtu,
                                one.is_rdma ? ", RDMA" : ""));
  }
  findings.push_back(
      texts.empty()
          ? of_network(Severity::Ok, "interfaces", "loopback only", "/sys/class/net")
          : of_network(Severity::Ok, "interfaces", name_some(texts, kMaxNamed), "/sys/class/net"));
  if (!node.can_listen) {
    Finding finding = of_network(Severity::Broken, "ports", "no free port", "bind");
    finding.advice.emplace_back("sysctl net.ipv4.ip_local_port_range; ss -s");
    findings.push_back(std::move(finding));
  } else if (!node.is_29500_free) {
    Finding finding = of_network(Severity::Warning,
                                 "ports",
                                 "29500, the default of torchrun, is in use (lockstep run finds a "
                                 "free port)",
                                 "bind");
    finding.advice.emplace_back("ss -ltnp 'sport = :29500', or another MASTER_PORT");
    findings.push_back(std::move(finding));
  } else {
    findings.push_back(
        of_network(Severity::Ok, "ports", "free ports found, 29500 is free", "bind"));
  }
  return findings;
}

// NCCL uses one GID of a RoCE port. Only RoCE v2 with an IPv4-mapped GID (::ffff:a.b.c.d) is
// routable; with a link-local GID or RoCE v1, connections within a subnet work and connections
// between subnets time out. lockstep run sets NCCL_IB_GID_INDEX to such a GID.
Findings check_rdma(const NodeFacts& node) {
  Findings findings;
  if (node.rdma.empty()) {
    findings.push_back({.section = Section::Rdma,
                        .severity = Severity::Ok,
                        .subject = "devices",
                        .text = "none",
                        .source = "/sys/class/infiniband",
                        .advice = {}});
  }
  for (const RdmaPortFact& port : node.rdma) {
    Finding finding{.section = Section::Rdma,
                    .severity = Severity::Ok,
                    .subject = fmt::format("{}/{}", port.device, port.port),
                    .text = fmt::format("{}, {}, {}", port.state, port.link_layer, port.rate),
                    .source = "/sys/class/infiniband",
                    .advice = {}};
    const bool is_active = port.state.find("ACTIVE") != std::string::npos;
    const bool is_roce = port.link_layer == "Ethernet";
    const auto v2 = std::find_if(port.gids.begin(), port.gids.end(), [](const GidFact& gid) {
      return gid.type == "RoCE v2" && gid.gid.starts_with("0000:0000:0000:0000:0000:ffff:");
    });
    if (!is_active) {
      finding.severity = Severity::Warning;
      finding.text += "; the port is not active";
      finding.advice.push_back("ibstat " + port.device + "; NCCL_IB_HCA=^" + port.device +
                               " excludes it from NCCL");
    } else if (is_roce && v2 != port.gids.end()) {
      finding.text += fmt::format("; RoCE v2 with IPv4 at GID {} ({})", v2->index, v2->interface);
    } else if (is_roce) {
      finding.severity = Severity::Warning;
      finding.text +=
          "; no RoCE v2 GID with an IPv4 address: NCCL may choose one that is not routable";
      finding.advice.emplace_back(
          "configure an IPv4 address on its interface, or set NCCL_IB_DISABLE=1 to use TCP");
    }
    findings.push_back(std::move(finding));
  }
  return findings;
}

// The bound of one second is what the views tolerate (kClockSeconds in event_store.cpp). The
// measurement error is subtracted first, so that a slow connection is not reported as a wrong
// clock.
Findings check_clocks(const CrossNodeFacts& cross_node) {
  constexpr double kMaximum = 1.0;
  Findings findings;
  if (cross_node.clocks.size() < 2) {
    return findings;
  }
  // Compare with the median, so that a single wrong clock is the one that is reported.
  std::vector<double> offsets;
  double precision = 0;
  for (const auto& [name, clock] : cross_node.clocks) {
    offsets.push_back(clock.offset);
    precision = std::max(precision, clock.precision);
  }
  const double usual = upper_median(std::move(offsets));
  std::vector<std::string> wrong;
  double widest = 0;
  for (const auto& [name, clock] : cross_node.clocks) {
    const double offset = clock.offset - usual;
    widest = std::max(widest, std::abs(offset));
    if (std::abs(offset) - clock.precision > kMaximum) {
      wrong.push_back(fmt::format(
          "{} is {} {}", name, format_duration(std::abs(offset)), offset > 0 ? "ahead" : "behind"));
    }
  }
  Finding finding{.section = Section::Clock,
                  .severity = Severity::Ok,
                  .subject = "offset",
                  .text = fmt::format("{} nodes agree to within {:.0f} ms (measured to {:.1f} ms)",
                                      cross_node.clocks.size(),
                                      widest * 1000,
                                      precision * 1000),
                  .source = "control plane",
                  .advice = {}};
  if (!wrong.empty()) {
    finding.severity = Severity::Warning;
    finding.text = name_some(wrong, kMaxNamed) + ": timestamps of these nodes are not comparable";
    finding.advice.emplace_back("chronyc tracking or timedatectl, on that node");
  }
  findings.push_back(std::move(finding));
  return findings;
}

}  // namespace lockstep::doctor
