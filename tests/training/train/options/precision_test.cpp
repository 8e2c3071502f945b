// SPDX-License-Identifier: Apache-2.0
#include "training/train/options/precision.h"

#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/error.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/models/autocast.h"
#include "training/train/small_training.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;

torch::Tensor train_in(Communicator& comm,
                       const std::string& strategy,
                       const std::string& precision) {
  const os::TemporaryDirectory directory;
  train::Flags flags;
  flags.strategy = strategy;
  flags.precision = precision;
  Session session = make_session(comm, directory.path(), flags);
  SmallNet net;
  torch::optim::SGD sgd(net.parameters(), 0.1);
  Trainer trainer(session, {.epochs = 1, .steps = 10, .global_batch = 10});
  trainer.fit(net, sgd, points(100), points(20), CrossEntropy());
  EXPECT_EQ(net.first->weight.scalar_type(), torch::kFloat32);
  return flat(net);
}

TEST(Precision, OfBf16IsCloseToOneProcessUnderEveryStrategy) {
  comm::Solo solo;
  const torch::Tensor exact = train_in(solo, "single", "fp32");
  const torch::Tensor single = train_in(solo, "single", "bf16");
  EXPECT_FALSE(single.equal(exact));
  EXPECT_LE((single - exact).abs().max().item<double>(), 2e-2);

  for (const std::string strategy : {"ddp", "horovod", "mirrored"}) {
    SCOPED_TRACE(strategy);
    run_workers(2, [&](Communicator& comm) {
      const torch::Tensor shared = train_in(comm, strategy, "bf16");
      EXPECT_LE((shared - single).abs().max().item<double>(), 2e-2);
    });
  }
}

TEST(Precision, IsOfTheForwardPassOnly) {
  SmallNet net;
  torch::ScalarType seen = torch::kFloat32;
  const LossFunction loss = train::in_precision(
      [&seen](torch::nn::Module& model, const Batch& batch) {
        const torch::Tensor scores = dynamic_cast<SmallNet&>(model).forward(batch.input);
        seen = scores.scalar_type();
        return Loss(scores.mean(), scores);
      },
      "bf16",
      torch::kCPU);

  const Loss result = loss(net, points(4)->batch(std::vector<int64_t>{0, 1, 2, 3}));
  result.value.backward();

  EXPECT_EQ(seen, torch::kBFloat16);
  EXPECT_EQ(result.value.scalar_type(), torch::kFloat32);
  EXPECT_EQ(result.scores.scalar_type(), torch::kFloat32);
  EXPECT_EQ(net.first->weight.grad().scalar_type(), torch::kFloat32);
  EXPECT_FALSE(models::autocast_type(torch::kCPU).has_value());
}

TEST(Precision, OfAFileIsRefusedWithWhatToWriteThere) {
  try {
    train::in_precision({}, "fp16", torch::kCPU, "ds.json");
  } catch (const Error& error) {
    EXPECT_THAT(
        error.what(),
        ::testing::AllOf(HasSubstr("  requested: \"fp16\": {\"enabled\": true}  (ds.json)\n"),
                         HasSubstr("\n  try:       \"bf16\": {\"enabled\": true}")));
    return;
  }
  GTEST_SKIP() << "libtorch " TORCH_VERSION " computes in fp16 on this CPU";
}

TEST(Precision, IsOfferedToALoopOfOnesOwn) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train::Flags flags;
  flags.precision = "bf16";
  const Session session = make_session(solo, directory.path(), flags);
  std::optional<torch::ScalarType> seen;
  SmallNet net;

  session.in_precision([&seen](torch::nn::Module&, const Batch&) {
    seen = models::autocast_type(torch::kCPU);
    return Loss(torch::zeros({1}));
  })(net, {});

  EXPECT_EQ(seen, torch::kBFloat16);
}

TEST(Precision, OfFp8IsRefusedOnTheCpu) {
  EXPECT_THAT([] { train::in_precision({}, "fp8", torch::kCPU); },
              ::testing::ThrowsMessage<Error>(
                  ::testing::AllOf(HasSubstr("cannot compute in fp8 on the CPU\n"
                                             "  requested: --precision fp8  (command line, or the "
                                             "program)\n"
                                             "  reason:    fp8 needs a GPU  (lockstep)\n"
                                             "  try:       --precision fp32"))));
}

TEST(Precision, OfFp8MustBeUsedWithinItsScope) {
  EXPECT_FALSE(models::fp8_is_on());
  {
    const models::Fp8Scope outer;
    EXPECT_TRUE(models::fp8_is_on());
    {
      const models::Fp8Scope inner;
      models::note_fp8_is_used();
      EXPECT_TRUE(inner.was_used());
    }
    EXPECT_TRUE(models::fp8_is_on());
    EXPECT_FALSE(outer.was_used());
  }
  EXPECT_FALSE(models::fp8_is_on());
}

// libtorch supports half-precision matrix products on the CPU since some version after 1.13.
bool computes_in_half() {
  try {
    torch::mm(torch::ones({2, 2}, torch::kHalf), torch::ones({2, 2}, torch::kHalf));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

TEST(Precision, OfFp16IsRefusedWhereTheCpuCannot) {
  if (computes_in_half()) {
    GTEST_SKIP() << "this libtorch multiplies half-precision matrices on the CPU";
  }
  const auto use = [] {
    train::in_precision({}, "fp16", torch::kCPU);
  };

  EXPECT_THAT(use, ::testing::Throws<Error>(::testing::Property(&Error::code, ExitCode::Usage)));
  EXPECT_THAT(use,
              ::testing::ThrowsMessage<Error>(
                  ::testing::AllOf(HasSubstr("cannot compute in fp16 on the CPU\n"
                                             "  requested: --precision fp16  (command line, or the "
                                             "program)\n"
                                             "  reason:    "),
                                   HasSubstr("\n  try:       --precision bf16"))));
  EXPECT_FALSE(models::autocast_type(torch::kCPU).has_value());
}

TEST(Precision, OfFp16TrainsWhereItCan) {
  if (!computes_in_half()) {
    GTEST_SKIP() << "this libtorch does not multiply half-precision matrices on the CPU";
  }
  comm::Solo solo;
  const torch::Tensor exact = train_in(solo, "single", "fp32");
  EXPECT_LE((train_in(solo, "single", "fp16") - exact).abs().max().item<double>(), 2e-2);
}

}  // namespace
}  // namespace lockstep
