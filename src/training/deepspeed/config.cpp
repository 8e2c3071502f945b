// SPDX-License-Identifier: Apache-2.0
//
// Reads ds_config.json in three passes over the parsed tree:
//
//   require_known_types()   type of optimizer and scheduler, because other keys depend on them
//   require_schema()        every key against the table in keys.cpp: known, typed, supported
//   read_...()              values into Config, rules between keys
//
// The last pass can rely on kinds and ranges. A value can be absent, "auto" or given; Setting keeps
// the three apart, and resolve.cpp decides the first two when flags and the program are known.
#include "training/deepspeed/config.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "common/document/json.h"
#include "common/os/files.h"
#include "lockstep/error.h"
#include "training/deepspeed/schema.h"

namespace lockstep::deepspeed {
namespace {

// Reads values of a tree that has passed the schema.
class Reader {
 public:
  Reader(const TreeNode& root, const std::string& source) : root_(root), source_(source) {}

  const TreeNode* find(std::string_view path) const { return deepspeed::find(root_, path); }

  // Each read() leaves `into` unchanged if the key is absent, so that the default in Config
  // applies. For numbers, a text can only be "auto" here and counts as absent.
  void read(std::string_view path, bool& into) const {
    if (const TreeNode* node = find(path)) {
      into = node->flag;
    }
  }
  void read(std::string_view path, double& into) const {
    if (const TreeNode* node = find(path); node != nullptr && node->kind != TreeNode::Kind::Text) {
      into = node->number;
    }
  }
  void read(std::string_view path, int64_t& into) const {
    if (const TreeNode* node = find(path); node != nullptr && node->kind != TreeNode::Kind::Text) {
      into = node->whole;
    }
  }
  void read(std::string_view path, std::string& into) const {
    if (const TreeNode* node = find(path)) {
      into = node->text;
    }
  }
  template <typename T>
  void read(std::string_view path, std::optional<T>& into) const {
    if (find(path) != nullptr) {
      read(path, into.emplace());
    }
  }
  // A node of kind Text can only be "auto": the schema has rejected any other text for this type.
  template <typename T>
  void read(std::string_view path, Setting<T>& into) const {
    const TreeNode* node = find(path);
    if (node == nullptr) {
      return;
    }
    into.position = node->position;
    into.is_auto = node->kind == TreeNode::Kind::Text;
    if (!into.is_auto) {
      read(path, into.value.emplace());
    }
  }

  Error refuse(std::string_view path, std::string_view why) const {
    return not_usable(*find(path), path, source_, why);
  }

 private:
  const TreeNode& root_;
  const std::string& source_;
};

// The entry of `known` that equals the type in the file, ignoring case. Names are compared without
// case. Types that DeepSpeed has and lockstep does not are listed in `refused`, so that the message
// does not call them misspelled.
std::string require_type(const Reader& file,
                         std::string_view path,
                         const std::vector<std::string>& known,
                         const std::vector<std::string>& refused) {
  const TreeNode* node = file.find(path);
  const std::string section(path.substr(0, path.find('.')));
  if (node == nullptr) {
    throw file.refuse(section, "the section has no type")
        .hint(fmt::format(R"("type": "{}")", known.front()));
  }
  const auto is_same = [&](const std::string& name) {
    return to_lower(name) == to_lower(node->text);
  };
  if (const auto found = std::find_if(known.begin(), known.end(), is_same); found != known.end()) {
    return *found;
  }
  const bool is_refused = std::any_of(refused.begin(), refused.end(), is_same);
  throw file
      .refuse(path,
              is_refused ? "lockstep does not support it" : fmt::format("unknown {}", section))
      .fact("available", join(known, ", "))
      .hint(fmt::format(
          R"("type": "{}")",
          is_refused ? known.front() : find_closest(node->text, known).value_or(known.front())));
}

std::string require_optimizer_type(const Reader& file) {
  return require_type(file,
                      "optimizer.type",
                      {"Adam", "AdamW", "SGD", "Lamb"},
                      {"Adagrad",
                       "OneBitAdam",
                       "ZeroOneAdam",
                       "OneBitLamb",
                       "Lion",
                       "Muon",
                       "MuAdam",
                       "MuAdamW",
                       "MuSGD"});
}

std::string require_scheduler_type(const Reader& file) {
  return require_type(file,
                      "scheduler.type",
                      {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest"},
                      {});
}

// Types are checked first: an unknown type would otherwise be reported as an error of its
// parameters.
void require_known_types(const Reader& file) {
  const auto is_text = [&file](const char* path) {
    const TreeNode* type = file.find(path);
    return type != nullptr && type->kind == TreeNode::Kind::Text;
  };
  if (is_text("optimizer.type")) {
    require_optimizer_type(file);
  }
  if (is_text("scheduler.type")) {
    require_scheduler_type(file);
  }
}

void read_betas(const Reader& file, OptimizerConfig& optimizer) {
  const TreeNode* betas = file.find("optimizer.params.betas");
  if (betas == nullptr) {
    return;
  }
  const bool is_auto = betas->kind == TreeNode::Kind::Text;
  size_t index = 0;
  for (Setting<double>* beta : {&optimizer.beta1, &optimizer.beta2}) {
    beta->is_auto = is_auto;
    beta->position = betas->position;
    if (!is_auto) {
      beta->value = betas->items[index++].number;
    }
  }
}

// DeepSpeed's Adam is AdamW by default. DeepSpeed's FusedAdam has adam_w_mode=True by default, even
// for "type": "Adam". The remark is printed because users of PyTorch expect L2 regularization from
// Adam.
void read_decay_mode(const Reader& file, OptimizerConfig& optimizer, Config& config) {
  if (optimizer.type != "Adam" && optimizer.type != "AdamW") {
    return;
  }
  file.read("optimizer.params.adam_w_mode", optimizer.decoupled_decay);
  if (optimizer.type == "AdamW") {
    optimizer.decoupled_decay = true;
  } else if (optimizer.decoupled_decay) {
    config.remarks.emplace_back(
        "optimizer Adam uses the weight decay of AdamW, as in DeepSpeed; \"adam_w_mode\": false "
        "adds the decay to the gradient");
  }
}

// The defaults are those of the optimizers in DeepSpeed, not of torch.optim.
void read_optimizer(const Reader& file, Config& config) {
  if (file.find("optimizer") == nullptr) {
    return;
  }
  OptimizerConfig& optimizer = config.optimizer.emplace();
  optimizer.type = require_optimizer_type(file);
  optimizer.position = file.find("optimizer.type")->position;
  file.read("optimizer.params.lr", optimizer.lr);
  read_betas(file, optimizer);
  file.read("optimizer.params.eps", optimizer.eps);
  file.read("optimizer.params.weight_decay", optimizer.weight_decay);
  file.read("optimizer.params.momentum", optimizer.momentum);
  file.read("optimizer.params.dampening", optimizer.dampening);
  file.read("optimizer.params.nesterov", optimizer.nesterov);
  file.read("optimizer.params.bias_correction", optimizer.bias_correction);
  file.read("optimizer.params.max_coeff", optimizer.max_coeff);
  file.read("optimizer.params.min_coeff", optimizer.min_coeff);
  file.read("optimizer.params.eps_inside_sqrt", optimizer.eps_inside_sqrt);
  read_decay_mode(file, optimizer, config);
  const bool has_rate = optimizer.lr.is_given() || optimizer.lr.is_auto;
  if (!optimizer.bias_correction && optimizer.type != "Lamb") {
    throw file.refuse("optimizer.params.bias_correction", "Adam without it is not supported")
        .hint("true");
  }
  if (optimizer.type == "SGD" && !has_rate) {
    throw file.refuse("optimizer.type", "SGD has no default learning rate")
        .hint(R"("lr": 0.1 in optimizer.params, or "lr": "auto")");
  }
}

void require_key(const Reader& file, const std::string& type, std::string_view path) {
  if (file.find(path) == nullptr) {
    throw file
        .refuse("scheduler.type",
                fmt::format("{} needs {}", type, path.substr(path.rfind('.') + 1)))
        .hint(fmt::format("{}", path));
  }
}

// The required parameters are those without a default in the scheduler classes of DeepSpeed.
void read_scheduler(const Reader& file, Config& config) {
  if (file.find("scheduler") == nullptr) {
    return;
  }
  SchedulerConfig& scheduler = config.scheduler.emplace();
  scheduler.type = require_scheduler_type(file);
  scheduler.position = file.find("scheduler.type")->position;
  if (scheduler.type == "WarmupDecayLR" || scheduler.type == "WarmupCosineLR") {
    require_key(file, scheduler.type, "scheduler.params.total_num_steps");
  }
  if (scheduler.type == "OneCycle") {
    require_key(file, scheduler.type, "scheduler.params.cycle_min_lr");
    require_key(file, scheduler.type, "scheduler.params.cycle_max_lr");
  }
  const auto read = [&file](std::string_view name, auto& into) {
    file.read(fmt::format("scheduler.params.{}", name), into);
  };
  read("warmup_min_lr", scheduler.warmup_min_lr);
  read("warmup_max_lr", scheduler.warmup_max_lr);
  read("warmup_num_steps", scheduler.warmup_num_steps);
  read("warmup_type", scheduler.warmup_type);
  read("total_num_steps", scheduler.total_num_steps);
  read("warmup_min_ratio", scheduler.warmup_min_ratio);
  read("cos_min_ratio", scheduler.cos_min_ratio);
  read("cycle_min_lr", scheduler.cycle_min_lr);
  read("cycle_max_lr", scheduler.cycle_max_lr);
  read("decay_lr_rate", scheduler.decay_lr_rate);
  read("cycle_first_step_size", scheduler.cycle_first_step_size);
  read("cycle_second_step_size", scheduler.cycle_second_step_size);
  read("decay_step_size", scheduler.decay_step_size);
  read("cycle_momentum", scheduler.cycle_momentum);
  read("cycle_min_mom", scheduler.cycle_min_mom);
  read("cycle_max_mom", scheduler.cycle_max_mom);
  read("decay_mom_rate", scheduler.decay_mom_rate);
  read("lr_range_test_min_lr", scheduler.lr_range_test_min_lr);
  read("lr_range_test_step_size", scheduler.lr_range_test_step_size);
  read("lr_range_test_step_rate", scheduler.lr_range_test_step_rate);
  read("lr_range_test_staircase", scheduler.lr_range_test_staircase);
}

// Canonical name of a number type. Accepts the spellings of PyTorch and DeepSpeed:
// "torch.bfloat16", "half", "fp32".
std::string short_type(const std::string& name) {
  if (name.empty()) {
    return name;
  }
  if (name.find("bf") != std::string::npos) {
    return "bf16";
  }
  return name.find("16") != std::string::npos || name == "half" ? "fp16" : "fp32";
}

// DeepSpeed rejects fp16 and bf16 together as well. The initial scale is 2 to initial_scale_power
// and is computed as a float.
void read_precision(const Reader& file, Config& config) {
  file.read("fp16.enabled", config.fp16);
  file.read("bf16.enabled", config.bf16);
  if (config.fp16.value.value_or(false) && config.bf16.value.value_or(false)) {
    throw file.refuse("bf16.enabled", "fp16 and bf16 cannot both be enabled")
        .fact("and fp16.enabled", "true", describe(config.fp16.position))
        .hint(R"("fp16": {"enabled": false})");
  }
  LossScaleConfig& scale = config.loss_scale;
  file.read("fp16.loss_scale", scale.fixed);
  file.read("fp16.initial_scale_power", scale.initial_scale_power);
  file.read("fp16.loss_scale_window", scale.window);
  file.read("fp16.hysteresis", scale.hysteresis);
  file.read("fp16.consecutive_hysteresis", scale.consecutive_hysteresis);
  file.read("fp16.min_loss_scale", scale.minimum);
  constexpr int64_t kMaxPower = 127;  // of a float
  if (scale.initial_scale_power > kMaxPower) {
    throw file.refuse("fp16.initial_scale_power", "2 to this power exceeds the range of float")
        .hint("16, DeepSpeed's default");
  }
  file.read("communication_data_type", config.communication_type);
  file.read("data_types.grad_accum_dtype", config.accumulation_type);
  config.accumulation_type = short_type(config.accumulation_type);
  if (!config.accumulation_type.empty() && config.accumulation_type != "fp32") {
    throw file.refuse("data_types.grad_accum_dtype", "lockstep accumulates gradients in fp32")
        .hint(R"("grad_accum_dtype": "fp32", or remove it)");
  }
}

// Whether `section`.device or the older flag requests the CPU. "cpu_offload": true is the older
// form of "offload_optimizer": {"device": "cpu"}.
bool read_offload(const Reader& file, std::string_view section, std::string_view old_flag) {
  const std::string path = fmt::format("zero_optimization.{}.device", section);
  std::string device = "none";
  file.read(path, device);
  if (device == "nvme") {
    throw file.refuse(path, "lockstep does not support it").hint(R"("device": "cpu")");
  }
  bool is_old = false;
  file.read(fmt::format("zero_optimization.{}", old_flag), is_old);
  return device == "cpu" || is_old;
}

// Stage 1 to 3 include each other: 1 partitions the optimizer state, 2 also gradients, 3 also
// parameters. Offloading moves a partitioned part to host memory, so it needs the stage that
// partitions it.
void read_zero(const Reader& file, Config& config) {
  ZeroConfig& zero = config.zero;
  if (file.find("zero_optimization") == nullptr) {
    return;
  }
  zero.position = file.find("zero_optimization")->position;
  int64_t stage = 0;
  file.read("zero_optimization.stage", stage);
  if (stage < 0 || stage > 3) {
    throw file.refuse("zero_optimization.stage", "unknown stage")
        .fact("available",
              "0 (nothing partitioned), 1 (optimizer state), 2 (and gradients), 3 (and parameters)")
        .hint(stage < 0 ? "0" : "3");
  }
  zero.stage = static_cast<int>(stage);
  const auto read = [&file](std::string_view name, auto& into) {
    file.read(fmt::format("zero_optimization.{}", name), into);
  };
  read("reduce_bucket_size", zero.reduce_bucket_size);
  read("allgather_bucket_size", zero.allgather_bucket_size);
  read("stage3_prefetch_bucket_size", zero.prefetch_bucket_size);
  read("stage3_param_persistence_threshold", zero.param_persistence_threshold);
  read("stage3_max_live_parameters", zero.max_live_parameters);
  read("overlap_comm", zero.overlap_comm);
  zero.offload_optimizer = read_offload(file, "offload_optimizer", "cpu_offload");
  zero.offload_param = read_offload(file, "offload_param", "cpu_offload_params");
  const auto path_of = [&file](const char* section, const char* old_flag) {
    return file.find(section) != nullptr ? section : old_flag;
  };
  if (zero.offload_optimizer && zero.stage == 0) {
    throw file
        .refuse(path_of("zero_optimization.offload_optimizer", "zero_optimization.cpu_offload"),
                "stage 0 does not partition the optimizer state")
        .hint(R"("stage": 1, 2 or 3)");
  }
  if (zero.offload_param && zero.stage != 3) {
    throw file
        .refuse(path_of("zero_optimization.offload_param", "zero_optimization.cpu_offload_params"),
                fmt::format("stage {} keeps all parameters on every worker", zero.stage))
        .hint(R"("stage": 3, or no offload_param)");
  }
}

// lockstep has one way to save activation memory, recomputation of blocks. Every key that asks
// DeepSpeed for activation checkpointing in some form turns it on.
void read_activations(const Reader& file, Config& config) {
  const char* const section = "activation_checkpointing";
  if (file.find(section) == nullptr) {
    return;
  }
  for (const char* name : {"partition_activations", "contiguous_memory_optimization"}) {
    bool is_on = false;
    file.read(fmt::format("{}.{}", section, name), is_on);
    if (is_on) {
      config.recompute = {.value = true, .position = file.find(section)->position};
    }
  }
  int64_t count = 0;
  file.read(fmt::format("{}.number_checkpoints", section), count);
  if (count > 0) {
    config.recompute = {.value = true, .position = file.find(section)->position};
  }
}

}  // namespace

// The example in parse_json() is shown if the text is not JSON at all.
Config parse_config(std::string_view text, const std::string& source) {
  const TreeNode root = document::parse_json(text, source, R"({"train_batch_size": 32})");
  const Reader file(root, source);
  require_known_types(file);
  require_schema(root, source);
  Config config;
  config.source = source;
  file.read("train_batch_size", config.train_batch_size);
  file.read("train_micro_batch_size_per_gpu", config.micro_batch_size);
  file.read("gradient_accumulation_steps", config.accumulation_steps);
  file.read("gradient_clipping", config.gradient_clipping);
  file.read("dataloader_drop_last", config.drop_last);
  read_optimizer(file, config);
  read_scheduler(file, config);
  read_precision(file, config);
  read_zero(file, config);
  read_activations(file, config);
  file.read("steps_per_print", config.steps_per_print);
  file.read("wall_clock_breakdown", config.wall_clock_breakdown);
  file.read("dump_state", config.dump_state);
  if (!config.gradient_clipping.is_given() && !config.gradient_clipping.is_auto) {
    config.remarks.emplace_back(
        "gradient_clipping is off, as in DeepSpeed's code; its documentation states 1.0");
  }
  return config;
}

Config read_config(const std::filesystem::path& path) {
  return parse_config(os::read_file(path), path.string());
}

}  // namespace lockstep::deepspeed
