// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <torch/types.h>

namespace lockstep {

// Options of -s deepspeed, which partitions the training state among the workers as ZeRO does
// (Rajbhandari et al., 2020). StrategyOptions contains them:
//
//   lockstep::Trainer trainer(session, {.precision = "bf16", .strategy = {.zero = {.stage = 2}}});
//
// The model and the training loop do not change: modules need no wrapper, and parameters can have
// any shape. The memory of a worker shrinks with the stage and with the number of workers W:
//
//            parameters  gradients                 optimizer state and master weights
//   stage 0  all         all                       all
//   stage 1  all         all, until they are sent  1 / W
//   stage 2  all         1 / W                     1 / W
//   stage 3  1 / W       1 / W                     1 / W
//
// The values here are those of the program. A ds_config.json overrides them, and the command line
// (--zero-stage, --bucket-mb, --precision) must not contradict that file; docs/deepspeed.md lists
// its keys. Other strategies ignore these options. make_strategy() throws an Error for an unknown
// stage. A ZeroOptions is a plain value; all workers must use the same one.
struct ZeroOptions {
  // ---- behaviour

  // ZeRO stage. 0: every worker holds everything. 1: each worker updates a shard of the parameters
  // and holds the optimizer state of this shard. 2: it also holds only the gradients of its shard.
  // 3: it also holds only its shard of the parameters, which are gathered when they are used.
  int stage = 0;
  // Type of the parameters; the Trainer sets it from TrainerOptions::precision. For 16-bit types,
  // float32 parameters are converted and the optimizer updates float32 master weights. Float: the
  // parameters keep their type.
  torch::ScalarType parameter_type = torch::kFloat32;
  // Type of the gradients during the exchange. Undefined: half for half, otherwise at least
  // float32.
  torch::ScalarType communication_type = torch::ScalarType::Undefined;

  // ---- performance

  // Elements of a gradient bucket, stages 0 to 2. A larger bucket needs fewer collectives, but more
  // memory for the bucket in transit.
  int64_t bucket_elements = int64_t{25} << 18;
  // Stage 3: parameters with fewer elements are not partitioned. Gathering a small parameter takes
  // longer than keeping it costs memory.
  int64_t persistence_threshold = 100'000;
  // Stage 3: number of elements that are gathered before they are used, in the order of the
  // previous step; 0: no prefetch.
  int64_t prefetch_elements = 50'000'000;
  // Stage 3: maximum number of gathered elements. A parameter that stays gathered after its use
  // need not be gathered again in backward. 0: those in use and those prefetched.
  int64_t max_live_elements = 0;
  // Keeps the optimizer state and the master weights in host memory. The optimizer then runs on the
  // CPU, and gradients and parameters are copied in each step.
  bool offload_optimizer = false;
};

}  // namespace lockstep
