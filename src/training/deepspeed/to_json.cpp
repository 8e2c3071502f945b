// SPDX-License-Identifier: Apache-2.0
//
// The inverse of config.cpp. Only parameters of the chosen type are written, because the schema
// rejects the others: the result can be parsed again. Values that were inferred are written like
// given ones.
#include <nlohmann/json.hpp>

#include "training/deepspeed/config.h"

namespace lockstep::deepspeed {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
void put(Json& into, const char* key, const Setting<T>& setting) {
  if (setting.value) {
    into[key] = *setting.value;
  } else if (setting.is_auto) {
    into[key] = "auto";
  }
}

template <typename T>
void put(Json& into, const char* key, const std::optional<T>& value) {
  if (value) {
    into[key] = *value;
  }
}

// betas are one key with two settings, which are both given or both open.
Json optimizer_json(const OptimizerConfig& optimizer) {
  Json params = Json::object();
  put(params, "lr", optimizer.lr);
  const bool has_moments = optimizer.type != "SGD";
  if (optimizer.beta1.value && optimizer.beta2.value) {
    params["betas"] = {*optimizer.beta1.value, *optimizer.beta2.value};
  } else if (optimizer.beta1.is_auto) {
    params["betas"] = "auto";
  }
  put(params, "eps", optimizer.eps);
  put(params, "weight_decay", optimizer.weight_decay);
  if (has_moments) {
    params["bias_correction"] = optimizer.bias_correction;
  }
  if (optimizer.type == "Adam" || optimizer.type == "AdamW") {
    params["adam_w_mode"] = optimizer.decoupled_decay;
  }
  if (optimizer.type == "SGD") {
    put(params, "momentum", optimizer.momentum);
    params["dampening"] = optimizer.dampening;
    params["nesterov"] = optimizer.nesterov;
  }
  if (optimizer.type == "Lamb") {
    params["max_coeff"] = optimizer.max_coeff;
    params["min_coeff"] = optimizer.min_coeff;
    params["eps_inside_sqrt"] = optimizer.eps_inside_sqrt;
  }
  return {{"type", optimizer.type}, {"params", params}};
}

void put_cycle(Json& params, const SchedulerConfig& scheduler) {
  params["cycle_min_lr"] = scheduler.cycle_min_lr;
  params["cycle_max_lr"] = scheduler.cycle_max_lr;
  params["decay_lr_rate"] = scheduler.decay_lr_rate;
  params["cycle_first_step_size"] = scheduler.cycle_first_step_size;
  put(params, "cycle_second_step_size", scheduler.cycle_second_step_size);
  params["decay_step_size"] = scheduler.decay_step_size;
  params["cycle_momentum"] = scheduler.cycle_momentum;
  params["cycle_min_mom"] = scheduler.cycle_min_mom;
  params["cycle_max_mom"] = scheduler.cycle_max_mom;
  params["decay_mom_rate"] = scheduler.decay_mom_rate;
}

Json scheduler_json(const SchedulerConfig& scheduler) {
  Json params = Json::object();
  if (scheduler.type == "OneCycle") {
    put_cycle(params, scheduler);
  } else if (scheduler.type == "LRRangeTest") {
    params["lr_range_test_min_lr"] = scheduler.lr_range_test_min_lr;
    params["lr_range_test_step_size"] = scheduler.lr_range_test_step_size;
    params["lr_range_test_step_rate"] = scheduler.lr_range_test_step_rate;
    params["lr_range_test_staircase"] = scheduler.lr_range_test_staircase;
  } else {
    put(params, "warmup_min_lr", scheduler.warmup_min_lr);
    put(params, "warmup_max_lr", scheduler.warmup_max_lr);
    put(params, "warmup_num_steps", scheduler.warmup_num_steps);
    put(params, "total_num_steps", scheduler.total_num_steps);
    params["warmup_type"] = scheduler.warmup_type;
    if (scheduler.type == "WarmupCosineLR") {
      params["warmup_min_ratio"] = scheduler.warmup_min_ratio;
      params["cos_min_ratio"] = scheduler.cos_min_ratio;
    }
  }
  return {{"type", scheduler.type}, {"params", params}};
}

Json fp16_json(const Config& config) {
  Json fp16 = Json::object();
  put(fp16, "enabled", config.fp16);
  fp16["loss_scale"] = config.loss_scale.fixed;
  fp16["initial_scale_power"] = config.loss_scale.initial_scale_power;
  fp16["loss_scale_window"] = config.loss_scale.window;
  fp16["hysteresis"] = config.loss_scale.hysteresis;
  fp16["consecutive_hysteresis"] = config.loss_scale.consecutive_hysteresis;
  fp16["min_loss_scale"] = config.loss_scale.minimum;
  return fp16;
}

Json zero_json(const ZeroConfig& zero) {
  Json json = {{"stage", zero.stage}};
  put(json, "reduce_bucket_size", zero.reduce_bucket_size);
  put(json, "allgather_bucket_size", zero.allgather_bucket_size);
  put(json, "overlap_comm", zero.overlap_comm);
  put(json, "stage3_prefetch_bucket_size", zero.prefetch_bucket_size);
  put(json, "stage3_param_persistence_threshold", zero.param_persistence_threshold);
  put(json, "stage3_max_live_parameters", zero.max_live_parameters);
  if (zero.offload_optimizer) {
    json["offload_optimizer"] = {{"device", "cpu"}};
  }
  if (zero.offload_param) {
    json["offload_param"] = {{"device", "cpu"}};
  }
  return json;
}

}  // namespace

std::string to_json(const Config& config) {
  Json json = Json::object();
  put(json, "train_batch_size", config.train_batch_size);
  put(json, "train_micro_batch_size_per_gpu", config.micro_batch_size);
  put(json, "gradient_accumulation_steps", config.accumulation_steps);
  put(json, "gradient_clipping", config.gradient_clipping);
  if (config.drop_last) {
    json["dataloader_drop_last"] = true;
  }
  if (config.optimizer) {
    json["optimizer"] = optimizer_json(*config.optimizer);
  }
  if (config.scheduler) {
    json["scheduler"] = scheduler_json(*config.scheduler);
  }
  json["fp16"] = fp16_json(config);
  Json bf16 = Json::object();
  put(bf16, "enabled", config.bf16);
  json["bf16"] = bf16;
  if (!config.communication_type.empty()) {
    json["communication_data_type"] = config.communication_type;
  }
  if (!config.accumulation_type.empty()) {
    json["data_types"] = {{"grad_accum_dtype", config.accumulation_type}};
  }
  json["zero_optimization"] = zero_json(config.zero);
  if (config.recompute.value.value_or(false)) {
    json["activation_checkpointing"] = {{"partition_activations", true}};
  }
  put(json, "steps_per_print", config.steps_per_print);
  json["wall_clock_breakdown"] = config.wall_clock_breakdown;
  json["dump_state"] = config.dump_state;
  return json.dump(2);
}

}  // namespace lockstep::deepspeed
