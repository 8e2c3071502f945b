// SPDX-License-Identifier: Apache-2.0
#include "training/train/verify/verify.h"

#include <gmock/gmock.h>
#include <limits>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "lockstep/verify.h"
#include "support/session.h"
#include "training/comm/solo.h"
#include "training/train/verify/verified.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;

struct Refused {
  Flags flags;
  const char* sentence;
};

TEST(Verify, RefusesFlagsThatAreNotExact) {
  std::vector<Refused> all(13);
  all[0].flags.strategy = "single";
  all[0].sentence = "-s single with --verify-strategies: it is the reference of the comparison";
  all[1].flags.compression = "bf16";
  all[1].sentence = "--compression bf16 with --verify-strategies: it rounds gradients";
  all[2].flags.fp16_allreduce = true;
  all[2].sentence = "--fp16-allreduce with --verify-strategies: it rounds gradients";
  all[3].flags.reduction = "sum";
  all[3].sentence = "--reduction sum with --verify-strategies: it changes the training";
  all[4].flags.use_adasum = true;
  all[4].sentence = "--use-adasum with --verify-strategies: it changes the training";
  all[5].flags.precision = "bf16";
  all[5].sentence = "--precision bf16 with --verify-strategies: the types are fixed";
  all[6].flags.loss_scale = "dynamic";
  all[6].sentence = "--loss-scale dynamic with --verify-strategies";
  all[7].flags.ema = 0.9;
  all[7].sentence = "--ema 0.9 with --verify-strategies: only trained weights are compared";
  all[8].flags.clip_norm = 1;
  all[8].sentence = "--clip 1 with --verify-strategies: both with and without clipping";
  all[9].flags.accumulate = 2;
  all[9].sentence = "--accumulate 2 with --verify-strategies: both with and without";
  all[10].flags.replicas = 2;
  all[10].sentence = "--replicas 2 with --verify-strategies: each process must be one worker";
  all[11].flags.auto_shard = "file";
  all[11].sentence = "--auto-shard file with --verify-strategies: every strategy must see";
  all[12].flags.resume = "auto";
  all[12].sentence = "--resume auto with --verify-strategies: the initial weights of the program";
  for (const Refused& each : all) {
    try {
      require_exact_flags(each.flags);
      ADD_FAILURE() << each.sentence;
    } catch (const Error& fault) {
      EXPECT_EQ(fault.code(), ExitCode::Usage);
      EXPECT_THAT(fault.what(), HasSubstr(each.sentence));
      EXPECT_THAT(fault.what(), HasSubstr("try:       omit"));
    }
  }
  EXPECT_NO_THROW(require_exact_flags({}));
}

TEST(VerifyReport, ShowsEveryFaultWithItsParameter) {
  VerifyReport report{.steps = 50, .global_batch = 64, .world_size = 2, .clip_norm = 0.5};
  report.notes = {"dropout is disabled: drop"};
  VerifiedRow row{.strategy = "ddp", .workers = 2, .results = {}};
  row.results[0][1].drift = 2e-10;
  row.results[0][1].worst = "'fc.weight' element 3 is 1, in one process 2";
  row.results[1][0] = {.drift = 3e-7, .identical = false, .worst = "", .different = "'fc.bias'"};
  row.results[1][3].drift = std::numeric_limits<double>::infinity();
  report.rows = {row};

  EXPECT_FALSE(agrees(report));
  const std::string text = format_report(report);
  EXPECT_THAT(text, HasSubstr("note        dropout is disabled: drop"));
  EXPECT_THAT(text,
              HasSubstr("verdict: STRATEGIES DIFFER\n"
                        "  -s ddp on 2 workers, float64, accumulate\n"
                        "    'fc.weight' element 3 is 1, in one process 2\n"
                        "  -s ddp on 2 workers, float32, plain\n"
                        "    workers differ: 'fc.bias'\n"
                        "  -s ddp on 2 workers, float32, both\n"));
  EXPECT_THAT(text, HasSubstr("! 2.0e-10"));
  EXPECT_THAT(text, HasSubstr("DIFFERENT"));
  EXPECT_THAT(text, HasSubstr("! inf"));
}

TEST(VerifyReport, AllowsWhatRoundingExplains) {
  TrialResult result{.drift = 1e-5};
  EXPECT_TRUE(is_within_bounds(result, 1));
  EXPECT_FALSE(is_within_bounds(result, 0));
  result.drift = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(is_within_bounds(result, 1));

  TrialResult fp16{.drift = 3.6e-2};
  EXPECT_FALSE(is_within_bounds(fp16, 3));
  fp16.rounding = 5e-2;
  EXPECT_TRUE(is_within_bounds(fp16, 3));
  fp16.identical = false;
  EXPECT_FALSE(is_within_bounds(fp16, 3));
}

TEST(Verify, LeavesModelAndOptimizerAsTheyWere) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Flags flags;
  flags.steps = 2;
  flags.verify_strategies = true;
  Session session = make_session(solo, directory.path(), flags);
  torch::nn::Sequential net(torch::nn::Linear(4, 3), torch::nn::Dropout(0.5));
  torch::optim::Adam adam(net->parameters(), 0.01);
  net->forward(torch::ones({2, 4})).sum().backward();
  adam.step();
  const torch::Tensor before = net->parameters()[0].detach().clone();
  const DatasetPtr data = tensors(torch::randn({20, 4}), torch::randint(3, {20}));
  Trainer trainer(session, {.global_batch = 4});

  int code = -1;
  try {
    trainer.fit(*net, adam, data, nullptr, [](torch::nn::SequentialImpl& it, const Batch& batch) {
      return torch::nn::functional::cross_entropy(it.forward(batch.input), batch.target);
    });
  } catch (const Verified& news) {
    code = news.exit_code();
  }

  EXPECT_EQ(code, 0);
  EXPECT_EQ(net->parameters()[0].scalar_type(), torch::kFloat32);
  EXPECT_TRUE(net->parameters()[0].detach().equal(before));
  EXPECT_EQ(adam.state().size(), 2U);
  EXPECT_TRUE(net->children()[1]->is_training());
}

}  // namespace
}  // namespace lockstep::train
