// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "lockstep/session.h"
#include "lockstep/trainer.h"
#include "training/deepspeed/config.h"

namespace lockstep::train {

// The command line of a training program. An absent value leaves the choice to the program.
struct Flags {
  std::optional<std::string> strategy;
  std::optional<int64_t> epochs;
  std::optional<int64_t> steps;
  std::optional<int64_t> global_batch;
  std::optional<int64_t> batch_size;  // per worker
  std::optional<int64_t> accumulate;
  std::optional<double> clip_norm;
  std::optional<std::string> precision;
  std::optional<std::string> loss_scale;  // none, dynamic or a number
  std::optional<double> ema;
  bool sync_batchnorm = false;
  bool recompute = false;
  bool find_unused = false;
  bool static_graph = false;
  bool verify_strategies = false;
  std::optional<std::string> schedule;
  std::optional<int64_t> warmup;
  std::optional<std::string> tail;
  std::optional<uint64_t> seed;
  std::optional<int64_t> early_stop;

  std::optional<std::string> compression;
  std::optional<int> powersgd_rank;
  std::optional<int64_t> powersgd_start;
  std::optional<double> bucket_mb;
  bool no_overlap = false;
  // Options of -s horovod.
  std::optional<std::string> reduction;
  bool fp16_allreduce = false;
  bool use_adasum = false;
  std::optional<double> fusion_threshold_mb;
  std::optional<double> cycle_time_ms;
  std::optional<int64_t> cache_capacity;
  std::optional<double> predivide_factor;
  std::optional<std::string> timeline;
  bool autotune = false;
  int replicas = 0;  // of -s mirrored in one process; 0: one per GPU, or one without GPUs
  std::string auto_shard = "data";
  std::string collective = "auto";
  std::optional<int> zero_stage;

  bool deepspeed = false;
  std::optional<std::string> deepspeed_config;
  std::optional<deepspeed::Config> file;  // content of deepspeed_config

  std::optional<std::string> optimizer;
  std::optional<double> lr;
  std::optional<double> momentum;
  std::optional<double> weight_decay;
  std::string scale_lr = "none";

  std::optional<int64_t> validate_every;
  std::optional<int64_t> checkpoint_every;
  std::optional<int> keep;
  std::optional<std::string> keep_for;  // "12h"
  std::optional<bool> checkpoint_async;
  bool no_checkpoint = false;
  bool no_validation = false;
  std::string resume = "none";  // none, auto, or a directory

  std::optional<std::string> data_dir;
  std::optional<std::string> run_dir;
  std::string device = "auto";       // auto, cpu, cuda
  std::string transport = "auto";    // see comm::JoinOptions
  std::string convolution = "auto";  // auto, onednn, im2col
  std::string cuda_graph = "auto";   // auto, on, off
  std::string jpeg = "auto";         // auto, cpu, gpu
  std::optional<double> timeout;     // seconds
  std::optional<double> stall_warning;
  std::optional<std::string> loader_threads;  // a number, or auto
  std::optional<double> report_every;

  std::map<std::string, std::string, std::less<>> program;  // options of the program, or defaults
};

// Parses the command line. Returns nothing after --help and stores the help text in `help`. Throws
// an Error for invalid or conflicting options; for an unknown option it suggests the closest one.
std::optional<Flags> parse_flags(int argc,
                                 const char* const* argv,
                                 const Program& program,
                                 std::string& help);

// Returns the options of the program, overridden by ds_config.json and the command line. Converts
// --batch-size to the global batch. Throws an Error if a number is out of range, or if the strategy
// does not support an option.
TrainerOptions resolve(TrainerOptions options,
                       const Flags& flags,
                       int world_size,
                       const os::Environment& environment = os::environment());

// Like resolve() above, for the options of the strategy only. Under -s horovod, also applies the
// HOROVOD_ variables; the command line takes precedence over them.
StrategyOptions resolve(StrategyOptions options,
                        const Flags& flags,
                        const os::Environment& environment = os::environment());

}  // namespace lockstep::train
