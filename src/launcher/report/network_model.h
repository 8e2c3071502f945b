// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Estimates the step time of many GPUs from a measurement of one GPU and a description of the
// network (docs/scaling.md). Unlike StepModel, which is fitted to runs of several sizes, it needs
// no run with communication.
//
//   const auto eight = estimate({.step_seconds = 0.1, .gradient_bytes = 5e8}, {}, {}, 8);
namespace lockstep::report {

// The training on one GPU.
struct OneGpu {
  double step_seconds = 0;
  double batch = 0;           // samples per step; 0: unknown
  double gradient_bytes = 0;  // that are reduced in a step, also the size of the parameters
};

// Rates are nominal, in one direction.
struct Network {
  int gpus_per_node = 8;
  double node_rate = 0;           // bytes/s between a node and all others
  double gpu_rate = 450e9;        // bytes/s between a GPU and the others of its node
  double message_seconds = 5e-6;  // latency of a message
  double reached_share = 0.8;     // share of the nominal rates that collectives reach
};

// How gradients are exchanged.
struct Exchange {
  int zero_stage = 0;  // 0: all-reduce, as ddp and horovod
  double bucket_bytes = 25e6;
  double backward_share = 2.0 / 3;  // share of the step in which gradients can be exchanged
  double jitter = 0;                // standard deviation of the step time of a GPU over its mean
};

struct GpuEstimate {
  int gpus = 0;
  int nodes = 0;
  double batch = 0;  // global; 0: unknown
  double step_seconds = 0;
  double samples_per_second = 0;  // 0: unknown
  double speed_up = 0;            // against one GPU with the same batch per GPU
  double efficiency = 0;          // speed-up divided by the number of GPUs
  double exchange_seconds = 0;    // all communication of a step, hidden or not
  double exposed_seconds = 0;     // exposed communication
  std::string limit = {};         // what costs most: "computation", "network", ...
};

// The step of `gpus` GPUs with the batch per GPU of `one`.
GpuEstimate estimate(const OneGpu& one, const Network& network, const Exchange& exchange, int gpus);

// An input of the estimate.
struct Assumption {
  std::string name = {};
  std::string value = {};
  std::string source = {};  // flag, run or default
};

struct NetworkPrediction {
  std::string title = {};
  std::vector<GpuEstimate> sizes = {};  // the first is the measurement of one GPU
  std::vector<Assumption> assumptions = {};
};

// A table of the sizes and a list of all assumptions, also those of the model itself; at most 100
// columns wide.
std::string prediction_table(const NetworkPrediction& prediction);

std::string prediction_csv(const NetworkPrediction& prediction);

std::string prediction_json(const NetworkPrediction& prediction);

}  // namespace lockstep::report
