// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "deepspeed/config.h"
#include "lockstep/session.h"
#include "lockstep/trainer.h"
#include "os/environment.h"

namespace lockstep::train {

// -s horovod; the names are those of horovodrun and of Horovod's example programs.
struct HorovodFlags {
  std::optional<std::string> reduction;
  bool fp16_allreduce = false;
  bool use_adasum = false;
  std::optional<double> fusion_threshold_mb;
  std::optional<double> cycle_time_ms;
  std::optional<int64_t> cache_capacity;
  std::optional<double> predivide_factor;
  std::optional<std::string> timeline;
  bool autotune = false;
};

// What the user typed after a training program's name. Absent: the program's own choice.
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
  HorovodFlags horovod;
  int replicas = 0;  // of -s mirrored in one process; 0: one for each GPU, else one
  std::string auto_shard = "data";
  std::string collective = "auto";
  std::optional<int> zero_stage;

  bool deepspeed = false;
  std::optional<std::string> deepspeed_config;
  std::optional<deepspeed::Config> file;  // what deepspeed_config names

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
  std::optional<double> timeout;     // seconds
  std::optional<double> stall_warning;
  std::optional<std::string> loader_threads;  // a number, or auto
  std::optional<double> report_every;

  std::map<std::string, std::string, std::less<>> program;  // the program's own, with defaults
};

// Reads the command line. Returns nothing after --help, whose text goes to `help`. Throws an Error
// with the closest match for an option that does not exist.
std::optional<Flags> parse_flags(int argc,
                                 const char* const* argv,
                                 const Program& program,
                                 std::string& help);

// The program's options with the flags laid over them, the batch size multiplied out; throws an
// Error where a number makes no sense.
TrainerOptions resolve(TrainerOptions options,
                       const Flags& flags,
                       int world_size,
                       const os::Environment& environment = os::environment());

// The same for the exchange of gradients alone; under -s horovod also Horovod's variables, over
// which flags win.
StrategyOptions resolve(StrategyOptions options,
                        const Flags& flags,
                        const os::Environment& environment = os::environment());

}  // namespace lockstep::train
