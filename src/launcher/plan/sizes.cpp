// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/sizes.h"

#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/plan/read.h"

namespace lockstep::plan {
namespace {

NodeRange read_nodes(const Asked& asked) {
  constexpr std::string_view kFlag = "--nnodes";
  const size_t colon = asked.text.find(':');
  const auto least = find_integer(std::string_view(asked.text).substr(0, colon));
  const auto most = colon == std::string::npos
                        ? least
                        : find_integer(std::string_view(asked.text).substr(colon + 1));
  if (!least || !most || *least < 1 || *most < *least || *most > kMostNodes) {
    throw not_understood(asked, kFlag, "a number of nodes, or MIN:MAX")
        .hint(fmt::format("{} 2, or {} 1:4", spelt(asked, kFlag), spelt(asked, kFlag)));
  }
  return {.least = static_cast<int>(*least),
          .most = static_cast<int>(*most),
          .source = source_of(asked, kFlag),
          .quote = {said(asked, kFlag), asked.source}};
}

WorkersPerNode read_per_node(const Asked& asked) {
  constexpr std::string_view kFlag = "--nproc-per-node";
  WorkersPerNode workers{.source = source_of(asked, kFlag),
                         .flag = spelt(asked, kFlag),
                         .quote = {said(asked, kFlag), asked.source}};
  if (asked.text == "cpu") {
    workers.rule = WorkerRule::Cpu;
  } else if (asked.text == "gpu") {
    workers.rule = WorkerRule::Gpu;
  } else if (asked.text == "auto") {
    workers.rule = WorkerRule::Auto;
  } else {
    const auto number = find_integer(asked.text);
    if (!number || *number < 1 || *number > kMostWorkersPerNode) {
      throw not_understood(
          asked, kFlag, fmt::format("a number from 1 to {}, cpu, gpu or auto", kMostWorkersPerNode))
          .hint(workers.flag + " 2");
    }
    workers.number = static_cast<int>(*number);
  }
  return workers;
}

// The nodes that `in_all` workers need with `per_node` workers each.
NodeRange divide(const WorkersInAll& in_all, const WorkersPerNode& per_node) {
  if (in_all.number % per_node.number != 0) {
    throw Error(
        ExitCode::Usage,
        fmt::format("cannot divide {} workers into groups of {}", in_all.number, per_node.number))
        .fact("asked", in_all.quote.text, in_all.quote.who)
        .fact("asked", per_node.quote.text, per_node.quote.who)
        .hint(fmt::format("drop {}, or -np {}",
                          per_node.flag,
                          (in_all.number / per_node.number + 1) * per_node.number));
  }
  const int nodes = in_all.number / per_node.number;
  return {.least = nodes,
          .most = nodes,
          .source = in_all.source,
          .quote = {fmt::format("{} with {}", in_all.quote.text, per_node.quote.text),
                    in_all.quote.who}};
}

void require_same_nodes(const Sizes& sizes) {
  const NodeRange needed = divide(*sizes.in_all, *sizes.per_node);
  if (needed.most >= sizes.nodes->least && needed.most <= sizes.nodes->most) {
    return;
  }
  throw Error(ExitCode::Usage,
              fmt::format("-np {} contradicts the other sizes", sizes.in_all->number))
      .fact("asked", sizes.in_all->quote.text, sizes.in_all->quote.who)
      .fact("asked", sizes.nodes->quote.text, sizes.nodes->quote.who)
      .fact("asked", sizes.per_node->quote.text, sizes.per_node->quote.who)
      .hint(fmt::format("drop -np: {} x {} = {} workers",
                        sizes.nodes->most,
                        sizes.per_node->number,
                        sizes.nodes->most * sizes.per_node->number));
}

}  // namespace

Sizes read_sizes(const Request& request) {
  constexpr int kMostWorkers = 10'000'000;
  Sizes sizes;
  if (request.nnodes) {
    sizes.nodes = read_nodes(*request.nnodes);
  }
  if (request.nproc_per_node) {
    sizes.per_node = read_per_node(*request.nproc_per_node);
  }
  if (request.np) {
    const auto number = read_number(
        *request.np, {.flag = "-np", .least = 1, .most = kMostWorkers, .hint = "-np 2"});
    sizes.in_all = {.number = number.value,
                    .source = number.source,
                    .quote = {said(*request.np, "-np"), request.np->source}};
  }
  if (sizes.in_all && sizes.per_node && sizes.per_node->rule == WorkerRule::Number) {
    if (sizes.nodes) {
      require_same_nodes(sizes);
    } else {
      sizes.nodes = divide(*sizes.in_all, *sizes.per_node);
    }
  }
  return sizes;
}

}  // namespace lockstep::plan
