// SPDX-License-Identifier: Apache-2.0
#include "training/deepspeed/config.h"

#include <filesystem>
#include <gmock/gmock.h>

#include "training/deepspeed/support.h"

namespace lockstep::deepspeed {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The unmodified file of CSC's DeepSpeed example for MNIST.
constexpr const char* kCsc = R"({
  "train_batch_size": 400,
  "steps_per_print": 2000,
  "optimizer": {
    "type": "Adam",
    "params": {
      "lr": 0.001,
      "betas": [
        0.8,
        0.999
      ],
      "eps": 1e-8,
      "weight_decay": 3e-7
    }
  },
  "scheduler": {
    "type": "WarmupLR",
    "params": {
      "warmup_min_lr": 0,
      "warmup_max_lr": 0.001,
      "warmup_num_steps": 1000
    }
  },
  "gradient_clipping": 1.0,
  "prescale_gradients": false,
  "wall_clock_breakdown": false
}
)";

TEST(ParseConfig, ReadsTheFileOfAnExampleUnmodified) {
  const Config config = parse_config(kCsc, "ds_config.json");

  EXPECT_EQ(config.train_batch_size.value, 400);
  EXPECT_EQ(config.train_batch_size.position, (Position{"ds_config.json", 2, 3}));
  EXPECT_FALSE(config.micro_batch_size.is_given());
  EXPECT_EQ(config.steps_per_print, 2000);
  ASSERT_TRUE(config.optimizer);
  EXPECT_EQ(config.optimizer->type, "Adam");
  EXPECT_EQ(config.optimizer->beta1.value, 0.8);
  EXPECT_EQ(config.optimizer->eps.value, 1e-8);
  EXPECT_EQ(config.optimizer->weight_decay.value, 3e-7);
  EXPECT_TRUE(config.optimizer->decoupled_decay);
  ASSERT_TRUE(config.scheduler);
  EXPECT_EQ(config.scheduler->type, "WarmupLR");
  EXPECT_EQ(config.scheduler->warmup_num_steps.value, 1000);
  EXPECT_EQ(config.scheduler->warmup_type, "log");
  EXPECT_EQ(config.gradient_clipping.value, 1.0);
  EXPECT_EQ(config.zero.stage, 0);
  EXPECT_THAT(config.remarks, ElementsAre(HasSubstr("Adam uses the weight decay of AdamW")));
}

TEST(ParseConfig, HasTheDefaultsOfDeepSpeedsCode) {
  const Config config = parse_config(R"({"fp16": {"enabled": true}})", "ds.json");

  EXPECT_EQ(config.fp16.value, true);
  EXPECT_EQ(config.loss_scale.fixed, 0);
  EXPECT_EQ(config.loss_scale.initial_scale_power, 16);
  EXPECT_EQ(config.loss_scale.window, 1000);
  EXPECT_EQ(config.loss_scale.hysteresis, 2);
  EXPECT_FALSE(config.loss_scale.consecutive_hysteresis);
  EXPECT_EQ(config.loss_scale.minimum, 1);
  EXPECT_FALSE(config.gradient_clipping.is_given());
  EXPECT_THAT(config.remarks, ElementsAre(HasSubstr("gradient_clipping is off")));
}

TEST(ParseConfig, ReadsZeroByEitherSpelling) {
  for (const char* text : {R"({"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 1e6,
            "stage3_param_persistence_threshold": "auto", "overlap_comm": false,
            "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}}})",
                           R"({"zero_optimization": {"stage": 3, "prefetch_bucket_size": 1000000,
            "param_persistence_threshold": "auto", "overlap_comm": false,
            "cpu_offload": true, "cpu_offload_param": true}})"}) {
    SCOPED_TRACE(text);
    const Config config = parse_config(text, "ds.json");
    EXPECT_EQ(config.zero.stage, 3);
    EXPECT_EQ(config.zero.prefetch_bucket_size.value, 1'000'000);
    EXPECT_TRUE(config.zero.param_persistence_threshold.is_auto);
    EXPECT_EQ(config.zero.overlap_comm, false);
    EXPECT_TRUE(config.zero.offload_optimizer);
    EXPECT_TRUE(config.zero.offload_param);
  }
  EXPECT_EQ(parse_config(R"({"bfloat16": {"enabled": true}})", "ds.json").bf16.value, true);
}

TEST(ParseConfig, ReadsTypesOfNumbersByAnyOfTheirNames) {
  const Config config = parse_config(
      R"({"communication_data_type": "bf16", "data_types": {"grad_accum_dtype": "torch.float32"}})",
      "ds.json");

  EXPECT_EQ(config.communication_type, "bf16");
  EXPECT_EQ(config.accumulation_type, "fp32");
  EXPECT_THAT(refusal_of(R"({"data_types": {"grad_accum_dtype": "half"}})"),
              AllOf(HasSubstr("cannot use data_types.grad_accum_dtype in ds.json: lockstep "
                              "accumulates gradients in fp32"),
                    HasSubstr("try:   \"grad_accum_dtype\": \"fp32\"")));
  EXPECT_EQ(parse_config(R"({"data_types": {"grad_accum_dtype": "float"}})", "").accumulation_type,
            "fp32");
}

TEST(ParseConfig, MapsActivationCheckpointingToRecompute) {
  EXPECT_FALSE(parse_config(R"({"activation_checkpointing": {"partition_activations": false}})", "")
                   .recompute.is_given());
  EXPECT_EQ(parse_config(R"({"activation_checkpointing": {"partition_activations": true}})", "")
                .recompute.value,
            true);
  EXPECT_EQ(parse_config(R"({"activation_checkpointing": {"number_checkpoints": 4}})", "")
                .recompute.value,
            true);
}

TEST(ParseConfig, DecaysAsAdamOnlyIfConfigured) {
  const auto mode = [](const std::string& type, const std::string& more) {
    return parse_config(R"({"optimizer": {"type": ")" + type + R"(", "params": {)" + more + "}}}",
                        "")
        .optimizer->decoupled_decay;
  };
  EXPECT_TRUE(mode("Adam", ""));
  EXPECT_FALSE(mode("adam", R"("adam_w_mode": false)"));
  EXPECT_TRUE(mode("AdamW", R"("adam_w_mode": false)"));
}

TEST(ParseConfig, RefusesStagesThatDoNotExist) {
  EXPECT_EQ(refusal_of(R"({"zero_optimization": {"stage": 4}})"),
            "cannot use zero_optimization.stage in ds.json: unknown stage\n"
            "  found:     4  (ds.json:1:24)\n"
            "  available: 0 (nothing partitioned), 1 (optimizer state), 2 (and gradients), 3 (and "
            "parameters)\n"
            "  try:       3");
  EXPECT_THAT(refusal_of(R"({"zero_optimization": {"stage": -1}})"),
              AllOf(HasSubstr("unknown stage"), HasSubstr("try:       0")));
}

TEST(ParseConfig, RefusesTwoPrecisions) {
  EXPECT_EQ(refusal_of("{\"fp16\": {\"enabled\": true},\n \"bf16\": {\"enabled\": true}}"),
            "cannot use bf16.enabled in ds.json: fp16 and bf16 cannot both be enabled\n"
            "  found:            true  (ds.json:2:11)\n"
            "  and fp16.enabled: true  (ds.json:1:11)\n"
            "  try:              \"fp16\": {\"enabled\": false}");
}

TEST(ParseConfig, RefusesOffloadThatHasNothingToMove) {
  EXPECT_THAT(refusal_of(R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}}})"),
              AllOf(HasSubstr("cannot use zero_optimization.offload_optimizer in ds.json: stage 0"),
                    HasSubstr("\"stage\": 1, 2 or 3")));
  EXPECT_THAT(refusal_of(R"({"zero_optimization": {"cpu_offload": true}})"),
              HasSubstr("cannot use zero_optimization.cpu_offload in ds.json: stage 0"));
  EXPECT_THAT(
      refusal_of(R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})"),
      AllOf(HasSubstr("cannot use zero_optimization.offload_param in ds.json: stage 2 keeps"),
            HasSubstr("\"stage\": 3, or no offload_param")));
  EXPECT_THAT(
      refusal_of(R"({"zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}})"),
      AllOf(HasSubstr("cannot use zero_optimization.offload_param.device in ds.json: lockstep "
                      "does not support it"),
            HasSubstr("try:   \"device\": \"cpu\"")));
  EXPECT_EQ(refusal_of(R"({"zero_optimization": {"offload_optimizer": {"device": "none"}}})"), "");
}

TEST(ParseConfig, RefusesOptimizersAndSchedulersItDoesNotHave) {
  EXPECT_EQ(refusal_of(R"({"optimizer": {"type": "OneBitAdam"}})"),
            "cannot use optimizer.type in ds.json: lockstep does not support it\n"
            "  found:     the string 'OneBitAdam'  (ds.json:1:16)\n"
            "  available: Adam, AdamW, SGD, Lamb\n"
            "  try:       \"type\": \"Adam\"");
  EXPECT_THAT(refusal_of(R"({"optimizer": {"type": "AdmaW"}})"),
              AllOf(HasSubstr("unknown optimizer"), HasSubstr("\"type\": \"AdamW\"")));
  EXPECT_THAT(refusal_of(R"({"scheduler": {"type": "WarmupLr2"}})"),
              AllOf(HasSubstr("unknown scheduler"), HasSubstr("\"type\": \"WarmupLR\"")));
  EXPECT_THAT(refusal_of(R"({"optimizer": {"params": {}}})"), HasSubstr("the section has no type"));
  EXPECT_THAT(refusal_of(R"({"optimizer": {"type": "SGD"}})"),
              HasSubstr("SGD has no default learning rate"));
}

TEST(ParseConfig, RefusesSchedulersThatLackWhatTheyNeed) {
  EXPECT_EQ(refusal_of(R"({"scheduler": {"type": "WarmupDecayLR"}})"),
            "cannot use scheduler.type in ds.json: WarmupDecayLR needs total_num_steps\n"
            "  found: the string 'WarmupDecayLR'  (ds.json:1:16)\n"
            "  try:   scheduler.params.total_num_steps");
  EXPECT_THAT(refusal_of(R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 0}}})"),
              HasSubstr("OneCycle needs cycle_max_lr"));
}

TEST(ParseConfig, RefusesAdamWithoutBiasCorrection) {
  EXPECT_THAT(
      refusal_of(R"({"optimizer": {"type": "Adam", "params": {"bias_correction": false}}})"),
      HasSubstr("cannot use optimizer.params.bias_correction in ds.json: Adam without it"));
}

TEST(ParseConfig, RefusesAScaleBeyondAFloat) {
  EXPECT_THAT(refusal_of(R"({"fp16": {"initial_scale_power": 200}})"),
              HasSubstr("2 to this power exceeds the range of float"));
}

TEST(ReadConfig, NamesAFileThatIsNotThere) {
  try {
    read_config("no/such/ds_config.json");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Io);
    EXPECT_THAT(error.what(), HasSubstr("no/such/ds_config.json"));
  }
}

TEST(ToJson, IsReadBackAsTheSame) {
  for (const char* text :
       {kCsc,
        "{}",
        R"({"train_batch_size": "auto", "optimizer": {"type": "SGD", "params": {"lr": "auto",
            "momentum": 0.5, "nesterov": true}}, "scheduler": {"type": "OneCycle", "params":
            {"cycle_min_lr": 0.1, "cycle_max_lr": 1, "cycle_second_step_size": 7}},
            "bf16": {"enabled": "auto"}, "gradient_clipping": "auto"})",
        R"({"optimizer": {"type": "AdamW", "params": {"betas": "auto"}},
            "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 9}},
            "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto", "overlap_comm": true,
            "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
            "activation_checkpointing": {"number_checkpoints": 3}, "dump_state": true,
            "communication_data_type": "fp16", "data_types": {"grad_accum_dtype": "float"}})",
        R"({"optimizer": {"type": "Lamb", "params": {"max_coeff": 3, "bias_correction": false}}})",
        R"({"scheduler":
            {"type": "LRRangeTest", "params": {"lr_range_test_staircase": true}},
            "dataloader_drop_last": true})"}) {
    SCOPED_TRACE(text);
    const std::string once = to_json(parse_config(text, "ds.json"));
    EXPECT_EQ(to_json(parse_config(once, "printed")), once);
    EXPECT_NE(once, to_json(parse_config(R"({"steps_per_print": 1})", "")));
  }
}

}  // namespace
}  // namespace lockstep::deepspeed
