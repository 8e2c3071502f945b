// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

// Options of -s horovod, which exchanges gradients as Horovod 0.28 does. StrategyOptions contains
// them:
//
//   lockstep::Trainer trainer(session,
//                             {.strategy = {.horovod = {.fusion_bytes = int64_t{64} << 20,
//                                                       .timeline = "timeline.json"}}});
//
// Each worker announces a gradient as soon as backward has computed it, in any order. Once per
// cycle, the workers negotiate which gradients are ready on all of them. These gradients are copied
// into a fusion buffer and reduced in one collective, on a separate thread, while backward
// continues.
//
// The values here are those of the program. The HOROVOD_ variables override them, and the command
// line overrides both; docs/strategies.md lists the variables and flags. Other strategies ignore
// these options. make_strategy() throws an Error if a value is out of range. A HorovodOptions is a
// plain value; all workers must use the same one.
struct HorovodOptions {
  // ---- behaviour

  // How the gradients of the workers are combined: "average", "sum" or "adasum" (--reduction).
  //
  // "average" gives the same result as every other strategy. "sum" does not divide, so that the
  // step uses the gradient times the number of workers. "adasum" (Maleki et al., 2020) combines the
  // updates of the optimizers instead of the gradients and needs 2, 4, 8, 16 ... workers.
  std::string reduction = "average";

  // ---- performance

  // Size of the fusion buffer (HOROVOD_FUSION_THRESHOLD). A larger buffer needs fewer collectives,
  // but each one waits for more gradients. 0: every tensor is sent separately.
  int64_t fusion_bytes = int64_t{128} << 20;
  // Cycle time: the interval between two rounds of negotiation in milliseconds
  // (HOROVOD_CYCLE_TIME). A longer cycle collects more gradients in one buffer, a shorter one
  // starts the exchange earlier.
  double cycle_ms = 1;
  // Capacity of the response cache in tensors (HOROVOD_CACHE_CAPACITY). Tensors in the cache are
  // negotiated with two bytes instead of their name, shape and type. 0: no cache.
  int64_t cache_capacity = 1024;
  // With "average", gradients are divided by this factor before the sum, and after the sum by the
  // number of workers divided by this factor. A factor above 1 keeps the sum of 16-bit gradients
  // within their range. Must be above 0; other reductions accept only 1.
  double predivide_factor = 1;

  // ---- diagnostics

  // File of a Chrome trace with one row per tensor, which rank 0 writes (HOROVOD_TIMELINE). Empty:
  // none. mark_cycles adds a mark at the start of each cycle.
  std::string timeline = {};
  bool mark_cycles = false;
  // Seconds after which rank 0 reports a tensor that is ready on some workers only, with the ranks
  // that have not announced it; and seconds after which such a tensor ends the run with an Error on
  // all workers. 0: never.
  double stall_warning = 10;
  double stall_shutdown = 0;

  // ---- performance: autotuning

  // Searches for the values of fusion_bytes and cycle_ms with the largest throughput in bytes per
  // second, with a Gaussian process (HOROVOD_AUTOTUNE). Prints the result at the end of the search
  // and uses it for the rest of the training.
  bool autotune = false;
  // CSV file with the values and the score of each sample; empty: none.
  std::string autotune_log = {};
  // One sample measures one pair of values for autotune_steps_per_sample steps. The first
  // autotune_warmup_samples samples are discarded. The search ends after autotune_max_samples.
  int autotune_warmup_samples = 3;
  int autotune_steps_per_sample = 10;
  int autotune_max_samples = 20;
  // Variance of the noise that the Gaussian process assumes; the scores have variance 1. A larger
  // value trusts a single sample less.
  double autotune_noise = 0.8;
};

}  // namespace lockstep
