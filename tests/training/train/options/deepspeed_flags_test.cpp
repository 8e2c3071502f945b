// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/deepspeed_flags.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/lamb.h"
#include "lockstep/muon.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Provides a configuration file for each test.
class DeepspeedFlags : public ::testing::Test {
 protected:
  ~DeepspeedFlags() override { std::filesystem::remove(path_); }

  Flags parse(const std::string& text, std::vector<std::string> words = {}) const {
    std::ofstream(path_) << text;
    words.insert(words.begin(), {"mnist", "--deepspeed_config", path_});
    return parse_words(words);
  }

  static Flags parse_words(const std::vector<std::string>& words) {
    std::vector<const char*> argv;
    argv.reserve(words.size());
    for (const std::string& word : words) {
      argv.push_back(word.c_str());
    }
    std::string help;
    return parse_flags(static_cast<int>(argv.size()), argv.data(), {.about = "Trains"}, help)
        .value();
  }

  // Returns the error for a file and options, with the name of the file replaced by ds.json.
  template <typename Call>
  std::string refusal(const Call& call) const {
    try {
      call();
    } catch (const Error& error) {
      std::string text = error.what();
      for (size_t at = text.find(path_); at != std::string::npos; at = text.find(path_)) {
        text.replace(at, path_.size(), "ds.json");
      }
      return text;
    }
    return "";
  }

  const std::string path_ =
      (std::filesystem::temp_directory_path() /
       ("ds_config_" +
        std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()) + ".json"))
          .string();
};

TEST_F(DeepspeedFlags, ChooseTheStrategy) {
  EXPECT_EQ(parse_words({"mnist", "--deepspeed"}).strategy, "deepspeed");
  EXPECT_EQ(parse(R"({"train_batch_size": 8})").strategy, "deepspeed");
  EXPECT_FALSE(parse_words({"mnist"}).strategy.has_value());
  EXPECT_EQ(refusal([] {
              parse_words({"mnist", "-s", "ddp", "--deepspeed"});
            }),
            "cannot use --deepspeed with -s ddp\n"
            "  requested: -s ddp and --deepspeed  (command line)\n"
            "  try:       -s deepspeed");
  EXPECT_THAT(refusal([&] {
                parse("{}", {"-s", "ddp"});
              }),
              HasSubstr("cannot use --deepspeed_config with -s ddp"));
}

TEST_F(DeepspeedFlags, TakeEitherSpellingOfTheFlag) {
  std::ofstream(path_) << R"({"train_batch_size": 8})";
  EXPECT_TRUE(parse_words({"mnist", "--deepspeed-config=" + path_}).file.has_value());
  EXPECT_THAT(refusal([] {
                parse_words({"mnist", "--deepspeed_config", "not/there.json"});
              }),
              HasSubstr("not/there.json"));
}

TEST_F(DeepspeedFlags, LayTheFileOverTheProgramsOptions) {
  const Flags flags = parse(
      R"({"train_batch_size": 64, "gradient_accumulation_steps": 4, "gradient_clipping": 0.5,
          "bf16": {"enabled": true}, "steps_per_print": 7, "wall_clock_breakdown": true,
          "communication_data_type": "fp16", "activation_checkpointing":
          {"partition_activations": true}, "zero_optimization": {"stage": 3,
          "reduce_bucket_size": 1000, "stage3_prefetch_bucket_size": 2000,
          "stage3_param_persistence_threshold": 30, "stage3_max_live_parameters": 40,
          "offload_optimizer": {"device": "cpu"}, "overlap_comm": false}})");
  const TrainerOptions options = resolve({.global_batch = 8, .clip_norm = 3}, flags, 2);

  EXPECT_EQ(options.global_batch, 64);
  EXPECT_EQ(options.accumulate, 4);
  EXPECT_EQ(options.clip_norm, 0.5);
  EXPECT_EQ(options.precision, "bf16");
  EXPECT_EQ(flags.precision, "bf16");
  EXPECT_TRUE(flags.recompute);
  EXPECT_EQ(options.report_steps, 7);
  EXPECT_TRUE(options.report_phases);
  const ZeroOptions& zero = options.strategy.zero;
  EXPECT_EQ(zero.stage, 3);
  EXPECT_EQ(zero.parameter_type, torch::kBFloat16);
  EXPECT_EQ(zero.communication_type, torch::kHalf);
  EXPECT_EQ(zero.bucket_elements, 1000);
  EXPECT_EQ(zero.prefetch_elements, 2000);
  EXPECT_EQ(zero.persistence_threshold, 30);
  EXPECT_EQ(zero.max_live_elements, 40);
  EXPECT_TRUE(zero.offload_optimizer);
  EXPECT_FALSE(options.strategy.overlap);
}

TEST_F(DeepspeedFlags, LeaveTheProgramWhatTheFileDoesNotSay) {
  const TrainerOptions options =
      resolve({.global_batch = 8, .accumulate = 2, .clip_norm = 3}, parse("{}"), 2);
  EXPECT_EQ(options.global_batch, 8);
  EXPECT_EQ(options.accumulate, 2);
  EXPECT_EQ(options.clip_norm, 3);
  EXPECT_EQ(options.precision, "fp32");
  EXPECT_EQ(options.strategy.zero.stage, 0);
  EXPECT_TRUE(options.strategy.overlap);
}

TEST_F(DeepspeedFlags, GiveTheLossScaleDeepSpeedsNumbers) {
  const TrainerOptions options = resolve(
      {.global_batch = 8}, parse(R"({"fp16": {"enabled": true, "loss_scale_window": 50}})"), 1);
  EXPECT_EQ(options.precision, "fp16");
  EXPECT_EQ(options.loss_scale, "dynamic");
  EXPECT_EQ(options.loss_scaling.first, 65536);
  EXPECT_EQ(options.loss_scaling.good_steps, 50);
  EXPECT_EQ(options.loss_scaling.hysteresis, 2);
  EXPECT_EQ(
      resolve({.global_batch = 8}, parse(R"({"fp16": {"enabled": true, "loss_scale": 128}})"), 1)
          .loss_scale,
      "128");
}

TEST_F(DeepspeedFlags, ResolveAutoFromTheFlags) {
  const Flags flags = parse(R"({"train_batch_size": "auto", "gradient_clipping": "auto",
                                "bf16": {"enabled": "auto"}})",
                            {"--batch-size", "16", "--clip", "2", "--precision", "bf16"});
  TrainerOptions options{.global_batch = 8};
  EXPECT_THAT(resolve_file(options, flags, 4).decisions,
              ElementsAre("train_batch_size: auto -> 64 (from --batch-size)",
                          "bf16.enabled: auto -> true (from --precision)",
                          "gradient_clipping: auto -> 2 (from --clip)"));
  lay_file_over(options, flags, 4);
  EXPECT_EQ(options.global_batch, 64);
  EXPECT_EQ(options.precision, "bf16");
}

TEST_F(DeepspeedFlags, RefuseWhatContradictsTheFile) {
  EXPECT_THAT(refusal([&] {
                resolve({}, parse("{\n\n\"train_batch_size\": 32}", {"--global-batch", "64"}), 2);
              }),
              HasSubstr("--global-batch 64 conflicts with train_batch_size 32 in ds.json:3"));
  EXPECT_THAT(refusal([&] {
                parse(R"({"fp16": {"enabled": true}})", {"--precision", "bf16"});
              }),
              HasSubstr("--precision bf16 conflicts with fp16.enabled true in ds.json:1"));
  EXPECT_EQ(refusal([&] {
              parse(R"({"zero_optimization": {"stage": 1}})", {"--zero-stage", "2"});
            }),
            "--zero-stage 2 conflicts with zero_optimization.stage 1 in ds.json:1\n"
            "  --zero-stage:            2  (command line)\n"
            "  zero_optimization.stage: 1  (ds.json:1:2)\n"
            "  try:                     omit --zero-stage");
}

TEST_F(DeepspeedFlags, ReplaceTheProgramsOptimizer) {
  const Flags flags = parse(
      R"({"optimizer": {"type": "Adam", "params": {"lr": "auto", "betas": [0.8, 0.99],
          "eps": 1e-6, "weight_decay": 0.1}}, "zero_optimization": {"stage": 1,
          "offload_optimizer": {"device": "cpu"}}})",
      {"--lr", "0.5"});
  OptimizerOptions options{.name = "sgd", .lr = 0.02};
  EXPECT_THAT(lay_file_over(options, flags),
              ElementsAre("optimizer.params.lr: auto -> 0.5 (from --lr)"));
  EXPECT_EQ(options.name, "adamw");  // adam_w_mode
  EXPECT_EQ(options.lr, 0.5);
  EXPECT_EQ(options.beta1, 0.8);
  EXPECT_EQ(options.epsilon, 1e-6);
  EXPECT_EQ(options.weight_decay, 0.1);
  EXPECT_TRUE(options.vectorised);

  OptimizerOptions own{.name = "sgd", .lr = 0.02};
  EXPECT_THAT(lay_file_over(own, parse("{}")), IsEmpty());
  EXPECT_EQ(own.name, "sgd");
  EXPECT_EQ(own.lr, 0.02);

  OptimizerOptions plain;
  lay_file_over(plain,
                parse(R"({"optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}})"));
  EXPECT_EQ(plain.name, "adam");
  EXPECT_FALSE(plain.vectorised);
}

TEST_F(DeepspeedFlags, MakeEachOfTheSchedules) {
  deepspeed::Decisions decisions;
  const auto schedule = [&](const std::string& type, const std::string& params) {
    return *find_file_schedule(
        parse(R"({"scheduler": {"type": ")" + type + R"(", "params": {)" + params + "}}}"),
        0.5,
        {},
        20,
        decisions);
  };
  EXPECT_NEAR(schedule("WarmupLR", R"("warmup_max_lr": "auto", "warmup_num_steps": 4)").rate(9, 1),
              0.5,
              1e-12);
  EXPECT_THAT(
      decisions,
      ::testing::ElementsAre("scheduler.params.warmup_max_lr: auto -> 0.5 (from the optimizer)"));
  EXPECT_NEAR(schedule("WarmupDecayLR",
                       R"("warmup_max_lr": 1, "warmup_num_steps": 10, "total_num_steps": "auto")")
                  .rate(16, 1),
              0.5,
              1e-12);
  EXPECT_NEAR(
      schedule("WarmupCosineLR",
               R"("warmup_num_steps": 10, "total_num_steps": "auto", "warmup_type": "linear")")
          .rate(6, 2),
      1,
      1e-12);
  EXPECT_TRUE(schedule("OneCycle", R"("cycle_min_lr": 0.1, "cycle_max_lr": 1)").betas(3));
  EXPECT_NEAR(schedule("LRRangeTest", R"("lr_range_test_step_size": 1)").rate(1, 9), 0.002, 1e-12);
  EXPECT_FALSE(find_file_schedule(parse("{}"), 0.5, {}, 20, decisions).has_value());
  EXPECT_THAT(refusal([&] {
                find_file_schedule(
                    parse(R"({"scheduler": {"type": "WarmupLR"}})", {"--schedule", "cosine"}),
                    0.5,
                    {},
                    20,
                    decisions);
              }),
              HasSubstr("--schedule cosine conflicts with scheduler.type WarmupLR"));
}

TEST(SetBetas, ReachesOptimizersThatHaveSome) {
  const std::vector<torch::Tensor> parameters = {torch::zeros({1}, torch::requires_grad())};
  for (const char* name : {"adam", "adamw", "lamb", "sgd"}) {
    const auto optimizer = make_optimizer(parameters, {.name = name});
    set_betas(*optimizer, 0.5, 0.75);
    torch::optim::OptimizerOptions& options = optimizer->param_groups().front().options();
    if (const auto* lamb = dynamic_cast<LambOptions*>(&options)) {
      EXPECT_EQ(lamb->betas(), std::make_tuple(0.5, 0.75));
    } else if (const auto* adam = dynamic_cast<torch::optim::AdamOptions*>(&options)) {
      EXPECT_EQ(adam->betas(), std::make_tuple(0.5, 0.75));
    }
  }
  Muon muon({torch::optim::OptimizerParamGroup(parameters)}, MuonOptions().is_matrix(false));
  set_betas(muon, 0.5, 0.75);
  EXPECT_EQ(dynamic_cast<MuonOptions&>(muon.param_groups().front().options()).betas(),
            std::make_tuple(0.5, 0.75));
}

}  // namespace
}  // namespace lockstep::train
