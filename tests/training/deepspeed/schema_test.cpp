// SPDX-License-Identifier: Apache-2.0
#include "training/deepspeed/schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <vector>

#include "common/base/text.h"
#include "training/deepspeed/support.h"

namespace lockstep::deepspeed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// {"a": {"b": value}} of "a.b".
std::string nested(std::string_view path, const std::string& value, const std::string& more = "") {
  const std::vector<std::string> names = split(path, '.');
  std::string text = value;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    const bool is_leaf = name == names.rbegin();
    text = fmt::format(R"({{{}"{}": {}}})", is_leaf ? more : "", *name, text);
  }
  return text;
}

// A file with this key and value, and with everything else that the key needs.
std::string file_with(const Key& key, std::string_view path, const std::string& value) {
  const std::string type(key.of.substr(0, key.of.find(' ')));
  if (path.starts_with("optimizer.params.")) {
    return fmt::format(R"({{"optimizer": {{"type": "{}", "params": {{{}"{}": {}}}}}}})",
                       type.empty() ? "adam" : type,
                       type == "sgd" ? R"("lr": 1, )" : "",
                       path.substr(path.rfind('.') + 1),
                       value);
  }
  if (path.starts_with("scheduler.params.")) {
    std::string more = type == "onecycle" ? R"("cycle_min_lr": 0, "cycle_max_lr": 1, )" : "";
    more = type == "warmupdecaylr" || type == "warmupcosinelr" ? R"("total_num_steps": 9, )" : more;
    const std::string leaf(path.substr(path.rfind('.') + 1));
    more = more.find('"' + leaf + '"') != std::string::npos && type != "onecycle" ? "" : more;
    if (leaf == "cycle_min_lr" || leaf == "cycle_max_lr") {
      more = leaf == "cycle_min_lr" ? R"("cycle_max_lr": 1, )" : R"("cycle_min_lr": 0, )";
    }
    return fmt::format(R"({{"scheduler": {{"type": "{}", "params": {{{}"{}": {}}}}}}})",
                       type.empty() ? "warmuplr" : type,
                       more,
                       leaf,
                       value);
  }
  if (path == "optimizer.type" || path == "scheduler.type" || path == "optimizer.legacy_fusion") {
    const bool is_type = path.ends_with("type");
    return fmt::format(R"({{"{}": {{{}"{}": {}}}}})",
                       path.substr(0, path.find('.')),
                       is_type ? "" : R"("type": "adam", )",
                       path.substr(path.rfind('.') + 1),
                       is_type ? (path.starts_with("opt") ? R"("adam")" : R"("warmuplr")") : value);
  }
  if (path == "optimizer" || path == "scheduler") {
    return nested(path, path == "optimizer" ? R"({"type": "AdamW"})" : R"({"type": "WarmupLR"})");
  }
  if (path == "optimizer.params" || path == "scheduler.params") {
    return nested(
        path, "{}", path.starts_with("opt") ? R"("type": "AdamW", )" : R"("type": "WarmupLR", )");
  }
  return nested(path, value);
}

std::string usual_value(const Key& key) {
  if (key.treatment == Treatment::Refused) {
    return key.type == Key::Type::Section ? R"({"enabled": false})" : std::string(key.off);
  }
  switch (key.type) {
    case Key::Type::Flag:
      return key.path.ends_with("bias_correction") ? "true" : "false";
    case Key::Type::Whole:
    case Key::Type::Number:
      return "1";
    case Key::Type::Text:
      return fmt::format(R"("{}")", key.choices.substr(0, key.choices.find(' ')));
    case Key::Type::Pair:
      return "[0.9, 0.95]";
    case Key::Type::Section:
    case Key::Type::Any:
      break;
  }
  return "{}";
}

TEST(Schema, AcceptsEveryKeyAtAUsualValue) {
  for (const Key& key : keys()) {
    SCOPED_TRACE(key.path);
    EXPECT_EQ(refusal_of(file_with(key, key.path, usual_value(key))), "");
    if (!key.alias.empty()) {
      EXPECT_EQ(refusal_of(file_with(key, key.alias, usual_value(key))), "");
    }
  }
}

TEST(Schema, KnowsEveryKeyOfTheDocumentedTable) {
  const std::vector<std::string> paths = {
      "train_batch_size",
      "train_micro_batch_size_per_gpu",
      "gradient_accumulation_steps",
      "optimizer.type",
      "optimizer.params",
      "optimizer.params.torch_adam",
      "optimizer.params.adam_w_mode",
      "scheduler.type",
      "scheduler.params",
      "scheduler.params.warmup_min_lr",
      "scheduler.params.warmup_max_lr",
      "scheduler.params.warmup_num_steps",
      "scheduler.params.warmup_type",
      "scheduler.params.total_num_steps",
      "scheduler.params.warmup_min_ratio",
      "scheduler.params.cos_min_ratio",
      "gradient_clipping",
      "fp16.enabled",
      "fp16.loss_scale",
      "fp16.initial_scale_power",
      "fp16.loss_scale_window",
      "fp16.hysteresis",
      "fp16.consecutive_hysteresis",
      "fp16.min_loss_scale",
      "fp16.auto_cast",
      "bf16.enabled",
      "bf16.immediate_grad_update",
      "communication_data_type",
      "prescale_gradients",
      "gradient_predivide_factor",
      "data_types.grad_accum_dtype",
      "zero_optimization.stage",
      "zero_optimization.contiguous_gradients",
      "zero_optimization.reduce_scatter",
      "zero_optimization.reduce_bucket_size",
      "zero_optimization.allgather_bucket_size",
      "zero_optimization.overlap_comm",
      "zero_optimization.allgather_partitions",
      "zero_optimization.round_robin_gradients",
      "zero_optimization.offload_optimizer.device",
      "zero_optimization.offload_optimizer.pin_memory",
      "zero_optimization.offload_optimizer.ratio",
      "zero_optimization.offload_optimizer.nvme_path",
      "zero_optimization.offload_optimizer.buffer_count",
      "zero_optimization.offload_optimizer.fast_init",
      "zero_optimization.offload_param.device",
      "zero_optimization.offload_param.pin_memory",
      "zero_optimization.offload_param.buffer_count",
      "zero_optimization.offload_param.buffer_size",
      "zero_optimization.offload_param.max_in_cpu",
      "zero_optimization.stage3_max_live_parameters",
      "zero_optimization.stage3_max_reuse_distance",
      "zero_optimization.stage3_prefetch_bucket_size",
      "zero_optimization.stage3_param_persistence_threshold",
      "zero_optimization.sub_group_size",
      "zero_optimization.stage3_gather_16bit_weights_on_model_save",
      "zero_optimization.ignore_unused_parameters",
      "zero_optimization.elastic_checkpoint",
      "zero_optimization.zero_hpz_partition_size",
      "zero_optimization.zero_quantized_weights",
      "zero_optimization.zero_quantized_gradients",
      "zero_optimization.mics_shard_size",
      "zero_allow_untested_optimizer",
      "zero_force_ds_cpu_optimizer",
      "activation_checkpointing.partition_activations",
      "activation_checkpointing.cpu_checkpointing",
      "activation_checkpointing.contiguous_memory_optimization",
      "activation_checkpointing.number_checkpoints",
      "activation_checkpointing.synchronize_checkpoint_boundary",
      "activation_checkpointing.profile",
      "steps_per_print",
      "wall_clock_breakdown",
      "memory_breakdown",
      "dump_state",
      "flops_profiler.enabled",
      "flops_profiler.profile_step",
      "flops_profiler.module_depth",
      "flops_profiler.top_modules",
      "flops_profiler.detailed",
      "flops_profiler.output_file",
      "comms_logger.enabled",
      "comms_logger.verbose",
      "comms_logger.prof_all",
      "comms_logger.prof_ops",
      "comms_logger.debug",
      "tensorboard.enabled",
      "tensorboard.output_path",
      "tensorboard.job_name",
      "csv_monitor.enabled",
      "wandb",
      "elasticity",
      "autotuning",
      "checkpoint.tag_validation",
      "checkpoint.load_universal",
      "checkpoint.use_node_local_storage"};
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    EXPECT_TRUE(std::any_of(
        keys().begin(), keys().end(), [&path](const Key& key) { return key.path == path; }));
  }
}

TEST(Schema, ProposesOurOwnWayToTensorboard) {
  EXPECT_THAT(refusal_of(R"({"train_batch_size": 8, "tensorboard": {"enabled": true}})"),
              HasSubstr("lockstep run --tensorboard"));
}

TEST(Schema, RefusesEveryKeyWithAWrongTypeAndNamesItsPath) {
  for (const Key& key : keys()) {
    if (key.type == Key::Type::Any || key.path.ends_with(".type")) {
      continue;
    }
    SCOPED_TRACE(key.path);
    std::string file = file_with(key, key.path, key.type == Key::Type::Text ? "7" : R"("seven")");
    if (key.path == "optimizer" || key.path == "scheduler" || key.path.ends_with(".params")) {
      file = nested(key.path, "7", key.path == "optimizer.params" ? R"("type": "AdamW", )" : "");
    }
    EXPECT_THAT(refusal_of(file),
                AllOf(HasSubstr(fmt::format("invalid value for {} in ds.json", key.path)),
                      HasSubstr("expected:"),
                      HasSubstr("(ds.json:1:")));
  }
}

TEST(Schema, RefusesByNameWhatLockstepDoesNotHave) {
  int count = 0;
  for (const Key& key : keys()) {
    if (key.treatment != Treatment::Refused) {
      continue;
    }
    SCOPED_TRACE(key.path);
    ++count;
    std::string asks = key.off == "false" ? "true" : "false";
    asks = key.type == Key::Type::Whole ? "2" : asks;
    asks = key.type == Key::Type::Number ? "0.5" : asks;
    asks = key.type == Key::Type::Section ? R"({"enabled": true})" : asks;
    EXPECT_THAT(refusal_of(file_with(key, key.path, asks)),
                AllOf(HasSubstr(fmt::format("cannot use {}", key.path)),
                      HasSubstr("lockstep does not support it"),
                      HasSubstr("ds.json:1:"),
                      HasSubstr("try:")));
  }
  EXPECT_GT(count, 30);
}

TEST(Schema, ASectionWithoutASwitchAsksForSomething) {
  EXPECT_EQ(refusal_of("{\n  \"sparse_attention\": {\"mode\": \"fixed\"}}"),
            "cannot use sparse_attention: lockstep does not support it\n"
            "  requested: sparse_attention  (ds.json:2:3)\n"
            "  try:       attention in the model itself");
  EXPECT_EQ(refusal_of(R"({"sparse_attention": {}, "amp": null})"), "");
}

TEST(Schema, RefusesAnUnknownKeyWithTheClosest) {
  EXPECT_EQ(refusal_of("{\n  \"train_batch_siez\": 32}"),
            "cannot read ds.json: unknown key 'train_batch_siez'\n"
            "  position: ds.json:2:3\n"
            "  try:      train_batch_size");
  EXPECT_EQ(refusal_of(R"({"zero_optimization": {"stgae": 2}})"),
            "cannot read ds.json: unknown key 'stgae' in zero_optimization\n"
            "  position: ds.json:1:24\n"
            "  try:      zero_optimization.stage");
}

TEST(Schema, SaysWhereAMisplacedKeyBelongs) {
  EXPECT_EQ(refusal_of(R"({"stage": 2})"),
            "cannot read ds.json: unknown key 'stage'\n"
            "  position: ds.json:1:2\n"
            "  note:     'stage' is a key of zero_optimization\n"
            "  try:      zero_optimization.stage");
  EXPECT_EQ(refusal_of(R"({"zero_optimization": {"train_batch_size": 2}})"),
            "cannot read ds.json: unknown key 'train_batch_size' in zero_optimization\n"
            "  position: ds.json:1:24\n"
            "  note:     'train_batch_size' is a top-level key\n"
            "  try:      train_batch_size, outside of zero_optimization");
  // "enabled" is a key of many sections: no hint is better than a wrong one.
  EXPECT_THAT(refusal_of(R"({"enabled": true})"), ::testing::Not(HasSubstr("is a key of")));
}

TEST(Schema, ListsTheKeysWhereNoneIsClose) {
  EXPECT_THAT(refusal_of(R"({"bf16": {"qqqqqqqqqq": 2}})"),
              HasSubstr("available: enabled, immediate_grad_update"));
}

TEST(Schema, NamesPathTypeAndPlace) {
  EXPECT_EQ(refusal_of("{\"zero_optimization\": {\n  \"stage\": \"two\"}}"),
            "invalid value for zero_optimization.stage in ds.json\n"
            "  expected: a whole number\n"
            "  found:    the string 'two'  (ds.json:2:3)\n"
            "  try:      the value without quotes");
  EXPECT_THAT(refusal_of(R"({"train_batch_size": 0})"),
              HasSubstr("expected: a whole number, at least 1"));
  EXPECT_THAT(refusal_of(R"({"train_batch_size": 1.5})"), HasSubstr("found:    1.5"));
  EXPECT_THAT(refusal_of(R"({"communication_data_type": "fp61"})"),
              AllOf(HasSubstr("expected: fp32, fp16, bf16"), HasSubstr("try:      \"fp16\"")));
  EXPECT_THAT(
      refusal_of(R"({"optimizer": {"type": "Adam", "params": {"betas": [0.9]}}})"),
      AllOf(HasSubstr("optimizer.params.betas"), HasSubstr("a list of two numbers, at least 0")));
  EXPECT_THAT(refusal_of(R"({"zero_optimization": true})"),
              HasSubstr(R"(try:      "zero_optimization": {"stage": 1})"));
  EXPECT_EQ(refusal_of("[1]"),
            "cannot read ds.json: not a JSON object\n"
            "  expected: {...}\n"
            "  found:    a list  (ds.json:1:1)");
}

TEST(Schema, TakesAutoOnlyWhereItMeansSomething) {
  EXPECT_THAT(refusal_of(R"({"steps_per_print": "auto"})"), HasSubstr("\"auto\" is not allowed"));
  for (const Key& key : keys()) {
    if (key.may_be_auto) {
      SCOPED_TRACE(key.path);
      EXPECT_EQ(refusal_of(file_with(key, key.path, R"("auto")")), "");
    }
  }
}

TEST(Schema, RefusesAParameterOfAnotherOptimizer) {
  EXPECT_EQ(refusal_of(R"({"optimizer": {"type": "Adam", "params": {"momentum": 0.9}}})"),
            "cannot use optimizer.params.momentum in ds.json: adam has no such parameter\n"
            "  found:        0.9  (ds.json:1:43)\n"
            "  parameter of: sgd\n"
            "  try:          remove momentum");
}

TEST(Schema, RefusesTwoSpellingsOfOneKey) {
  EXPECT_EQ(refusal_of(R"({"bf16": {"enabled": true}, "bfloat16": {"enabled": true}})"),
            "cannot read ds.json: 'bf16' and 'bfloat16' are the same key\n"
            "  first:  ds.json:1:2\n"
            "  second: ds.json:1:29\n"
            "  try:    remove one of them");
}

}  // namespace
}  // namespace lockstep::deepspeed
