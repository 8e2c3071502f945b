// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/network_model.h"

#include <algorithm>
#include <cmath>

// A step consists of computation, of which a share is backward, and of collectives. All-reduce is a
// reduce-scatter and an all-gather, each of which moves the same bytes, so the ZeRO stages differ
// only in when which half runs (Rajbhandari et al., "ZeRO", section 7):
//
//   stage  in forward   in backward                  after the update   total
//   0                   reduce-scatter, all-gather                      2 x bytes
//   1, 2                reduce-scatter               all-gather         2 x bytes
//   3      all-gather   reduce-scatter, all-gather                      3 x bytes
//
// A half of g GPUs on each of N nodes sends (g - 1)/g of the bytes from each GPU within its node,
// and (N - 1)/N of the bytes from each node. NCCL pipelines both, so the slower one counts.
namespace lockstep::report {
namespace {

// Reduce-scatter or all-gather of all gradients or parameters, in all buckets.
struct Half {
  double within = 0;   // seconds that the links within a node need
  double between = 0;  // seconds that the network between nodes needs
  double latency = 0;

  double seconds() const { return std::max(within, between) + latency; }
};

double bucket_count(const OneGpu& one, const Exchange& exchange) {
  return std::max(1.0, std::ceil(one.gradient_bytes / exchange.bucket_bytes));
}

Half half_of(const OneGpu& one, const Network& network, double buckets, int gpus, int nodes) {
  const double local = std::min(gpus, network.gpus_per_node);
  const double all = nodes;
  // A ring within the node, a tree between nodes.
  const double messages = local - 1 + std::ceil(std::log2(all));
  return {
      .within =
          (local - 1) / local * one.gradient_bytes / (network.gpu_rate * network.reached_share),
      .between = (all - 1) / all * one.gradient_bytes / (network.node_rate * network.reached_share),
      .latency = buckets * messages * network.message_seconds};
}

// The part of `seconds` of communication that computation of length `window` does not hide. The
// first bucket is ready after its share of the computation; the last one is ready at the end, so
// nothing hides it.
double exposed_part(double seconds, double window, double buckets) {
  return std::max(seconds - window * (1 - 1 / buckets), seconds / buckets);
}

double exposed_of(double half, double step, const Exchange& exchange, double buckets) {
  const double backward = step * exchange.backward_share;
  switch (exchange.zero_stage) {
    case 0:
      return exposed_part(2 * half, backward, buckets);
    case 1:
    case 2:
      return exposed_part(half, backward, buckets) + half;
    default:
      // Without overlap, parameters are not prefetched in forward either.
      return exposed_part(2 * half, backward, buckets) +
             exposed_part(half, exchange.backward_share > 0 ? step - backward : 0, buckets);
  }
}

std::string limit_of(const Half& half, double exposed, double waiting, double step) {
  constexpr double kNoticeable = 0.01;
  if (std::max(exposed, waiting) < kNoticeable * step) {
    return "computation";
  }
  if (waiting > exposed) {
    return "slowest GPU";
  }
  if (half.latency > std::max(half.within, half.between)) {
    return "latency";
  }
  return half.between > half.within ? "network" : "links in the node";
}

}  // namespace

// All GPUs wait for the slowest. The expected maximum of n normally distributed step times is about
// sqrt(2 ln n) standard deviations above the mean.
GpuEstimate estimate(const OneGpu& one,
                     const Network& network,
                     const Exchange& exchange,
                     int gpus) {
  const int nodes = (gpus + network.gpus_per_node - 1) / network.gpus_per_node;
  GpuEstimate size{.gpus = gpus,
                   .nodes = nodes,
                   .batch = one.batch * gpus,
                   .step_seconds = one.step_seconds,
                   .limit = "computation"};
  if (gpus > 1) {
    const double buckets = bucket_count(one, exchange);
    const Half half = half_of(one, network, buckets, gpus, nodes);
    const double waiting = one.step_seconds * exchange.jitter * std::sqrt(2 * std::log(gpus));
    size.exchange_seconds = (exchange.zero_stage == 3 ? 3 : 2) * half.seconds();
    size.exposed_seconds = exposed_of(half.seconds(), one.step_seconds, exchange, buckets);
    size.step_seconds += size.exposed_seconds + waiting;
    size.limit = limit_of(half, size.exposed_seconds, waiting, size.step_seconds);
  }
  size.samples_per_second = size.batch / size.step_seconds;
  size.efficiency = one.step_seconds / size.step_seconds;
  size.speed_up = size.efficiency * gpus;
  return size;
}

}  // namespace lockstep::report
