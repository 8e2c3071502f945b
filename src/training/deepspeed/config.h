// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/document/node.h"

// Strict reader of DeepSpeed's configuration file. Defaults are those of DeepSpeed's code.
namespace lockstep::deepspeed {

using document::Position;

// A value that the file can leave open: absent, "auto" or given.
template <typename T>
struct Setting {
  std::optional<T> value = {};
  bool is_auto = false;
  Position position = {};

  bool is_given() const { return value.has_value(); }
};

struct OptimizerConfig {
  std::string type;  // Adam, AdamW, SGD or Lamb
  Setting<double> lr;
  Setting<double> beta1;  // beta1 and beta2 are the key betas
  Setting<double> beta2;
  Setting<double> eps;
  Setting<double> weight_decay;
  Setting<double> momentum;  // sgd
  double dampening = 0;
  bool nesterov = false;
  bool bias_correction = true;
  bool decoupled_decay = true;  // adam and adamw: decay the weights, not the gradient
  double max_coeff = 10;        // lamb
  double min_coeff = 0.01;
  bool eps_inside_sqrt = false;
  Position position = {};
};

struct SchedulerConfig {
  std::string type;  // WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest
  Setting<double> warmup_min_lr;
  Setting<double> warmup_max_lr;
  Setting<int64_t> warmup_num_steps;
  std::string warmup_type = "log";  // or linear
  Setting<int64_t> total_num_steps;
  double warmup_min_ratio = 0;
  double cos_min_ratio = 1e-4;

  double cycle_min_lr = 0;
  double cycle_max_lr = 0;
  double decay_lr_rate = 0;
  int64_t cycle_first_step_size = 2000;
  std::optional<int64_t> cycle_second_step_size;  // absent: as cycle_first_step_size
  int64_t decay_step_size = 0;
  bool cycle_momentum = true;
  double cycle_min_mom = 0.8;
  double cycle_max_mom = 0.9;
  double decay_mom_rate = 0;

  double lr_range_test_min_lr = 1e-3;
  int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1;
  bool lr_range_test_staircase = false;
  Position position = {};
};

struct LossScaleConfig {
  double fixed = 0;  // 0: dynamic
  int64_t initial_scale_power = 16;
  int64_t window = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double minimum = 1;
};

// Sizes are numbers of elements, as in DeepSpeed.
struct ZeroConfig {
  int stage = 0;
  Setting<int64_t> reduce_bucket_size;
  Setting<int64_t> allgather_bucket_size;
  Setting<int64_t> prefetch_bucket_size;
  Setting<int64_t> param_persistence_threshold;
  Setting<int64_t> max_live_parameters;
  std::optional<bool> overlap_comm;
  bool offload_optimizer = false;
  bool offload_param = false;
  Position position = {};
};

struct Config {
  std::string source;  // name of the file, for messages
  Setting<int64_t> train_batch_size;
  Setting<int64_t> micro_batch_size;  // train_micro_batch_size_per_gpu
  Setting<int64_t> accumulation_steps;
  Setting<double> gradient_clipping;
  bool drop_last = false;
  std::optional<OptimizerConfig> optimizer;
  std::optional<SchedulerConfig> scheduler;
  Setting<bool> fp16;
  Setting<bool> bf16;
  LossScaleConfig loss_scale;
  std::string communication_type;  // fp32, fp16 or bf16; empty: that of the gradients
  std::string accumulation_type;   // type of sums over micro-batches
  ZeroConfig zero;
  Setting<bool> recompute;
  std::optional<int64_t> steps_per_print;
  bool wall_clock_breakdown = false;
  bool dump_state = false;

  // Notes on behaviour that differs from the documentation of DeepSpeed; printed once.
  std::vector<std::string> remarks;
};

// Throws an Error: Io if the file cannot be read, otherwise Usage with line and column.
Config read_config(const std::filesystem::path& path);
Config parse_config(std::string_view text, const std::string& source);

// The configuration in the format of DeepSpeed, for dump_state and logs. Parsing the result
// produces the same configuration.
std::string to_json(const Config& config);

}  // namespace lockstep::deepspeed
