// SPDX-License-Identifier: Apache-2.0
#include "training/deepspeed/resolve.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::deepspeed {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string refusal(const std::string& text, const Known& known) {
  try {
    resolve(parse_config(text, "ds.json"), known);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::Usage);
    return error.what();
  }
  return "";
}

std::vector<int64_t> batch(const std::string& text, const Known& known) {
  const Config config = resolve(parse_config(text, "ds.json"), known).config;
  return {*config.train_batch_size.value,
          *config.micro_batch_size.value,
          *config.accumulation_steps.value};
}

TEST(ResolveBatch, InfersWhatIsMissing) {
  const Known four{.world_size = 4};
  EXPECT_THAT(batch(R"({"train_batch_size": 32})", four), ElementsAre(32, 8, 1));
  EXPECT_THAT(batch(R"({"train_micro_batch_size_per_gpu": 4})", four), ElementsAre(16, 4, 1));
  EXPECT_THAT(batch(R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 2})", four),
              ElementsAre(32, 2, 4));
  EXPECT_THAT(batch(R"({"train_batch_size": 32, "gradient_accumulation_steps": 2})", four),
              ElementsAre(32, 4, 2));
  EXPECT_THAT(
      batch(R"({"train_micro_batch_size_per_gpu": 3, "gradient_accumulation_steps": 2})", four),
      ElementsAre(24, 3, 2));
}

TEST(ResolveBatch, TakesWhatTheTrainerHas) {
  const Known program{.world_size = 2, .global_batch = {.value = 64, .source = "the program"}};
  EXPECT_THAT(batch("{}", program), ElementsAre(64, 32, 1));
  EXPECT_THAT(batch(R"({"gradient_accumulation_steps": 4})", program), ElementsAre(64, 8, 4));

  const Known flag{.world_size = 2,
                   .global_batch = {.value = 64, .source = "the program"},
                   .batch_per_worker = {.value = 16, .source = "--batch-size", .is_typed = true}};
  const Resolved resolved =
      resolve(parse_config(R"({"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
                       "gradient_accumulation_steps": "auto"})",
                           "ds.json"),
              flag);
  EXPECT_EQ(resolved.config.train_batch_size.value, 32);
  EXPECT_THAT(resolved.decisions,
              ElementsAre("train_batch_size: auto -> 32 (from --batch-size)",
                          "train_micro_batch_size_per_gpu: auto -> 16 (from --batch-size)",
                          "gradient_accumulation_steps: auto -> 1 (from the other sizes)"));
}

TEST(ResolveBatch, ShowsTheArithmeticThatDoesNotFit) {
  EXPECT_EQ(refusal("{\"train_batch_size\": 32,\n\"train_micro_batch_size_per_gpu\": 4,\n"
                    "\"gradient_accumulation_steps\": 2}",
                    {.world_size = 3}),
            "batch sizes in ds.json do not match: 32 is not 4 x 2 x 3 = 24\n"
            "  train_batch_size:               32  (ds.json:1:2)\n"
            "  train_micro_batch_size_per_gpu: 4  (ds.json:2:1)\n"
            "  gradient_accumulation_steps:    2  (ds.json:3:1)\n"
            "  workers:                        3\n"
            "  try:                            \"train_batch_size\": 24");
  EXPECT_THAT(refusal(R"({"train_batch_size": 400})", {.world_size = 3}),
              AllOf(HasSubstr("400 is not 133 x 1 x 3 = 399"),
                    HasSubstr("train_micro_batch_size_per_gpu: 133  (inferred)")));
  EXPECT_THAT(refusal(R"({"train_batch_size": 2})", {.world_size = 4}),
              HasSubstr("2 is not 1 x 1 x 4 = 4"));
}

TEST(ResolveBatch, RefusesAFileWithoutABatchIfNoFlagHasOne) {
  EXPECT_EQ(refusal("{}", {.world_size = 2}),
            "no batch size in ds.json\n"
            "  expected: train_batch_size or train_micro_batch_size_per_gpu\n"
            "  try:      \"train_batch_size\": 32, or --global-batch 32");
}

TEST(ResolveBatch, NamesBothWhereFlagAndFileDiffer) {
  const Known typed{.world_size = 2,
                    .global_batch = {.value = 64, .source = "--global-batch", .is_typed = true}};
  EXPECT_EQ(refusal("{\n\n\"train_batch_size\": 32}", typed),
            "--global-batch 64 conflicts with train_batch_size 32 in ds.json:3\n"
            "  --global-batch:   64  (command line)\n"
            "  train_batch_size: 32  (ds.json:3:1)\n"
            "  try:              omit --global-batch, or write \"auto\" in ds.json");
  EXPECT_EQ(refusal(R"({"train_batch_size": 64})", typed), "");
  EXPECT_THAT(
      refusal(R"({"gradient_accumulation_steps": 2})",
              {.global_batch = {.value = 8},
               .accumulate = {.value = 4, .source = "--accumulate", .is_typed = true}}),
      HasSubstr("--accumulate 4 conflicts with gradient_accumulation_steps 2 in ds.json:1"));
  EXPECT_THAT(refusal(R"({"train_micro_batch_size_per_gpu": 4})",
                      {.world_size = 2,
                       .batch_per_worker = {.value = 6, .source = "--batch-size", .is_typed = true},
                       .accumulate = {.value = 1, .source = "--accumulate", .is_typed = true}}),
              HasSubstr("conflicts with train_micro_batch_size_per_gpu 4"));
}

const Known& some_known() {
  static const Known known{.world_size = 1,
                           .global_batch = {.value = 8, .source = "the program"},
                           .clip = {.value = 0.5, .source = "--clip", .is_typed = true},
                           .precision = {.value = "bf16", .source = "the program"},
                           .lr = {.value = 0.25, .source = "--lr", .is_typed = true},
                           .beta1 = {.value = 0.8, .source = "the program"},
                           .beta2 = {.value = 0.95, .source = "the program"},
                           .epsilon = {.value = 1e-6, .source = "the program"},
                           .weight_decay = {.value = 0.1, .source = "the program"},
                           .warmup_steps = {.value = 10, .source = "--warmup", .is_typed = true},
                           .total_steps = {.value = 100, .source = "the length of the training"}};
  return known;
}

TEST(Resolve, FillsInEveryAutoAndSaysFromWhere) {
  const Resolved resolved = resolve(
      parse_config(
          R"({"gradient_clipping": "auto", "fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"},
              "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto",
              "eps": "auto", "weight_decay": "auto"}},
              "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": "auto",
              "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}},
              "zero_optimization": {"reduce_bucket_size": "auto"}})",
          "ds.json"),
      some_known());

  EXPECT_THAT(
      resolved.decisions,
      ElementsAre("fp16.enabled: auto -> false (from the program)",
                  "bf16.enabled: auto -> true (from the program)",
                  "gradient_clipping: auto -> 0.5 (from --clip)",
                  "optimizer.params.lr: auto -> 0.25 (from --lr)",
                  "optimizer.params.weight_decay: auto -> 0.1 (from the program)",
                  "optimizer.params.eps: auto -> 1e-06 (from the program)",
                  "optimizer.params.betas[0]: auto -> 0.8 (from the program)",
                  "optimizer.params.betas[1]: auto -> 0.95 (from the program)",
                  "scheduler.params.warmup_num_steps: auto -> 10 (from --warmup)",
                  "scheduler.params.warmup_min_lr: auto -> 0 (DeepSpeed's default)",
                  "scheduler.params.warmup_max_lr: auto -> 0.25 (from --lr)",
                  "scheduler.params.total_num_steps: auto -> 100 (from the length of the training)",
                  "zero_optimization.reduce_bucket_size: auto -> lockstep's default"));
  EXPECT_FALSE(resolved.config.zero.reduce_bucket_size.is_given());
}

// The shape of a typical file for Transformers: everything open, much of it without effect.
TEST(Resolve, ReadsAFileThatLeavesEverythingOpen) {
  const Resolved resolved =
      resolve(parse_config(
                  R"({"fp16": {"enabled": "auto", "loss_scale": 0, "loss_scale_window": 1000,
              "initial_scale_power": 16, "hysteresis": 2, "min_loss_scale": 1},
              "bf16": {"enabled": "auto"},
              "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto",
              "eps": "auto", "weight_decay": "auto"}},
              "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto",
              "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
              "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
              "pin_memory": true}, "offload_param": {"device": "cpu", "pin_memory": true},
              "overlap_comm": true, "contiguous_gradients": true, "sub_group_size": 1e9,
              "reduce_bucket_size": "auto", "stage3_prefetch_bucket_size": "auto",
              "stage3_param_persistence_threshold": "auto", "stage3_max_live_parameters": 1e9,
              "stage3_max_reuse_distance": 1e9,
              "stage3_gather_16bit_weights_on_model_save": true},
              "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
              "steps_per_print": 2000, "train_batch_size": "auto",
              "train_micro_batch_size_per_gpu": "auto", "wall_clock_breakdown": false})",
                  "ds.json"),
              some_known());
  EXPECT_EQ(resolved.config.train_batch_size.value, 8);
  EXPECT_EQ(resolved.config.optimizer->lr.value, 0.25);
  EXPECT_EQ(resolved.config.scheduler->warmup_max_lr.value, 0.25);
  EXPECT_EQ(resolved.config.zero.max_live_parameters.value, 1'000'000'000);
  EXPECT_TRUE(resolved.config.zero.offload_param);
  EXPECT_THAT(resolved.decisions,
              Contains("zero_optimization.stage3_prefetch_bucket_size: auto -> lockstep's "
                       "default"));
}

TEST(Resolve, HasDeepSpeedsDefaultsWhereTheFileIsSilent) {
  const Known program{.global_batch = {.value = 8},
                      .lr = {.value = 0.25, .source = "the program"},
                      .weight_decay = {.value = 0.1, .source = "the program"}};
  const Resolved resolved = resolve(
      parse_config(R"({"optimizer": {"type": "Adam"}, "scheduler": {"type": "WarmupLR"}})", ""),
      program);

  // A file with an optimizer replaces that of the program completely, as in DeepSpeed.
  EXPECT_EQ(resolved.config.optimizer->lr.value, 1e-3);
  EXPECT_EQ(resolved.config.optimizer->weight_decay.value, 0);
  EXPECT_EQ(resolved.config.scheduler->warmup_num_steps.value, 1000);
  EXPECT_EQ(resolved.config.scheduler->warmup_max_lr.value, 1e-3);
  EXPECT_EQ(resolved.config.gradient_clipping.value, 0);
  EXPECT_EQ(resolved.config.fp16.value, false);
  EXPECT_THAT(resolved.decisions, IsEmpty());
}

TEST(Resolve, NamesBothWhereFlagAndFileDiffer) {
  const auto rate = R"({"optimizer": {"type": "Adam", "params": {"lr": 0.1}}})";
  EXPECT_THAT(refusal(rate, some_known()),
              HasSubstr("--lr 0.25 conflicts with optimizer.params.lr 0.1 in ds.json:1"));
  EXPECT_THAT(refusal(R"({"gradient_clipping": 1})", some_known()),
              HasSubstr("--clip 0.5 conflicts with gradient_clipping 1 in ds.json:1"));
  Known known{.global_batch = {.value = 8}};
  known.optimizer = {.value = "sgd", .source = "--optimizer", .is_typed = true};
  EXPECT_THAT(refusal(rate, known),
              HasSubstr("--optimizer sgd conflicts with optimizer.type Adam in ds.json:1"));
  known.optimizer.value = "adam";
  EXPECT_EQ(refusal(rate, known), "");
  known.precision = {.value = "bf16", .source = "--precision", .is_typed = true};
  EXPECT_THAT(refusal(R"({"fp16": {"enabled": true}})", known),
              HasSubstr("--precision bf16 conflicts with fp16.enabled true in ds.json:1"));
  EXPECT_EQ(refusal(R"({"fp16": {"enabled": false}})", known), "");
  EXPECT_THAT(refusal(R"({"bf16": {"enabled": false}})", known),
              HasSubstr("--precision bf16 conflicts with bf16.enabled false in ds.json:1"));
  known.schedule = {.value = "cosine", .source = "--schedule", .is_typed = true};
  EXPECT_THAT(refusal(R"({"scheduler": {"type": "WarmupLR"}})", known),
              HasSubstr("--schedule cosine conflicts with scheduler.type WarmupLR in ds.json:1"));
  known = {.global_batch = {.value = 8}};
  known.warmup_steps = {.value = 10, .source = "--warmup", .is_typed = true};
  EXPECT_THAT(
      refusal(R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 20}}})", known),
      HasSubstr("--warmup 10 conflicts with scheduler.params.warmup_num_steps 20"));
}

TEST(Resolve, PrecisionIsTheProgramsWhereTheFileIsSilent) {
  Known known{.global_batch = {.value = 8},
              .precision = {.value = "fp16", .source = "the program"}};
  EXPECT_EQ(resolve(parse_config("{}", ""), known).config.fp16.value, true);
  EXPECT_EQ(resolve(parse_config(R"({"bf16": {"enabled": true}})", ""), known).config.fp16.value,
            false);
}

}  // namespace
}  // namespace lockstep::deepspeed
