// SPDX-License-Identifier: Apache-2.0
//
// Three sizes are related by np = nnodes * nproc_per_node. -np and a number per node determine the
// nodes; if all three are given, they must agree.
#include "launcher/plan/sizes.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/parse_options.h"

namespace lockstep::plan {
namespace {

// MIN:MAX makes a run elastic, as in torchrun. N is N:N.
NodeRange read_nodes(const OptionValue& given) {
  constexpr std::string_view kFlag = "--nnodes";
  const size_t colon = given.text.find(':');
  const auto minimum = find_integer(std::string_view(given.text).substr(0, colon));
  const auto maximum = colon == std::string::npos
                           ? minimum
                           : find_integer(std::string_view(given.text).substr(colon + 1));
  if (!minimum || !maximum || *minimum < 1 || *maximum < *minimum || *maximum > kMaxNodes) {
    throw invalid_value(given, kFlag, "a number of nodes, or MIN:MAX")
        .hint(fmt::format("{} 2, or {} 1:4", spelt(given, kFlag), spelt(given, kFlag)));
  }
  return {.minimum = static_cast<int>(*minimum),
          .maximum = static_cast<int>(*maximum),
          .source = source_of(given, kFlag),
          .provenance = {said(given, kFlag), given.source}};
}

WorkersPerNode read_per_node(const OptionValue& given) {
  constexpr std::string_view kFlag = "--nproc-per-node";
  WorkersPerNode workers{.source = source_of(given, kFlag),
                         .flag = spelt(given, kFlag),
                         .provenance = {said(given, kFlag), given.source}};
  if (given.text == "cpu") {
    workers.rule = WorkerRule::Cpu;
  } else if (given.text == "gpu") {
    workers.rule = WorkerRule::Gpu;
  } else if (given.text == "auto") {
    workers.rule = WorkerRule::Auto;
  } else {
    const auto number = find_integer(given.text);
    if (!number || *number < 1 || *number > kMaxWorkersPerNode) {
      throw invalid_value(
          given, kFlag, fmt::format("a number from 1 to {}, cpu, gpu or auto", kMaxWorkersPerNode))
          .hint(workers.flag + " 2");
    }
    workers.number = static_cast<int>(*number);
  }
  return workers;
}

// The nodes that `total` workers need with `per_node` workers each.
NodeRange divide(const TotalWorkers& total, const WorkersPerNode& per_node) {
  if (total.number % per_node.number != 0) {
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot divide {} workers into groups of {}", total.number, per_node.number))
        .fact("requested", total.provenance.text, total.provenance.source)
        .fact("requested", per_node.provenance.text, per_node.provenance.source)
        .hint(fmt::format("drop {}, or -np {}",
                          per_node.flag,
                          (total.number / per_node.number + 1) * per_node.number));
  }
  const int nodes = total.number / per_node.number;
  return {.minimum = nodes,
          .maximum = nodes,
          .source = total.source,
          .provenance = {fmt::format("{} with {}", total.provenance.text, per_node.provenance.text),
                         total.provenance.source}};
}

void require_same_nodes(const Sizes& sizes) {
  const NodeRange needed = divide(*sizes.total, *sizes.per_node);
  if (needed.maximum >= sizes.nodes->minimum && needed.maximum <= sizes.nodes->maximum) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("-np {} contradicts the other sizes", sizes.total->number))
      .fact("requested", sizes.total->provenance.text, sizes.total->provenance.source)
      .fact("requested", sizes.nodes->provenance.text, sizes.nodes->provenance.source)
      .fact("requested", sizes.per_node->provenance.text, sizes.per_node->provenance.source)
      .hint(fmt::format("drop -np: {} x {} = {} workers",
                        sizes.nodes->maximum,
                        sizes.per_node->number,
                        sizes.nodes->maximum * sizes.per_node->number));
}

}  // namespace

Sizes read_sizes(const Request& request) {
  constexpr int kMaxWorkers = 10'000'000;
  Sizes sizes;
  if (request.nnodes) {
    sizes.nodes = read_nodes(*request.nnodes);
  }
  if (request.nproc_per_node) {
    sizes.per_node = read_per_node(*request.nproc_per_node);
  }
  if (request.np) {
    const auto number = read_number(
        *request.np, {.flag = "-np", .minimum = 1, .maximum = kMaxWorkers, .hint = "-np 2"});
    sizes.total = {.number = number.value,
                   .source = number.source,
                   .provenance = {said(*request.np, "-np"), request.np->source}};
  }
  if (sizes.total && sizes.per_node && sizes.per_node->rule == WorkerRule::Number) {
    if (sizes.nodes) {
      require_same_nodes(sizes);
    } else {
      sizes.nodes = divide(*sizes.total, *sizes.per_node);
    }
  }
  return sizes;
}

}  // namespace lockstep::plan
