// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/memory_check.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"

namespace lockstep::train {
namespace {

using strategy::zero::MemoryNeed;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr int64_t kMiB = int64_t{1} << 20;

const std::array<MemoryNeed, 4> kByStage = {
    MemoryNeed{
        .parameters = 40 * kMiB, .gradients = 40 * kMiB, .optimizer = 80 * kMiB, .buffers = 1},
    MemoryNeed{
        .parameters = 40 * kMiB, .gradients = 40 * kMiB, .optimizer = 20 * kMiB, .buffers = 1},
    MemoryNeed{
        .parameters = 40 * kMiB, .gradients = 10 * kMiB, .optimizer = 20 * kMiB, .buffers = 1},
    MemoryNeed{
        .parameters = 12 * kMiB, .gradients = 10 * kMiB, .optimizer = 20 * kMiB, .buffers = 1}};

TEST(MemoryCheck, ReportsTheMemoryOfAStageAndTheAvailableMemory) {
  const WorkerMemory much{.bytes = 400 * kMiB, .sharing = 2};
  EXPECT_THAT(compare_memory(kByStage, 2, {much, much}),
              ElementsAre("ZeRO stage 2, ranks 0, 1 each: 40.0 MiB parameters + 10.0 MiB gradients "
                          "+ 20.0 MiB optimizer + 1 B buffers = 70.0 MiB of 400.0 MiB"));
  EXPECT_THAT(compare_memory(kByStage, 0, {much, {.bytes = 300 * kMiB}}),
              ElementsAre(HasSubstr("rank 1: 40.0 MiB parameters"), HasSubstr("rank 0: ")));
}

TEST(MemoryCheck, RefusesWithTheSmallestStageThatFits) {
  const WorkerMemory much{.bytes = 400 * kMiB, .sharing = 2};
  const WorkerMemory little{.bytes = 90 * kMiB, .sharing = 4};
  EXPECT_THAT(
      [&] {
        compare_memory(kByStage, 0, {much, little});
      },
      ThrowsMessage<Error>(
          "cannot train at ZeRO stage 0: a worker needs 160.0 MiB in addition to its activations\n"
          "  rank 1 has:    90.0 MiB, 4 workers share its node\n"
          "  stage 1 needs: 100.0 MiB\n"
          "  stage 2 needs: 70.0 MiB\n"
          "  try:           --zero-stage 2"));
}

TEST(MemoryCheck, SaysSoWhereNoStageFits) {
  EXPECT_THAT([&] { compare_memory(kByStage, 1, {{.bytes = kMiB}}); },
              ThrowsMessage<Error>(HasSubstr("  rank 0 has:    1.0 MiB, 1 worker shares its node\n"
                                             "  stage 2 needs: 70.0 MiB\n"
                                             "  stage 3 needs: 42.0 MiB\n"
                                             "  try:           more workers on more nodes, or "
                                             "--precision bf16")));
}

TEST(MemoryCheck, IsOfTheGpuWhereThereIsOne) {
  const WorkerMemory shared{.bytes = 90 * kMiB, .sharing = 2};
  EXPECT_THAT(
      compare_memory(kByStage, 2, {shared}, MemoryLocation::Gpu),
      ElementsAre("ZeRO stage 2, rank 0: 40.0 MiB parameters + 10.0 MiB gradients + 20.0 MiB "
                  "optimizer + 1 B buffers = 70.0 MiB of 90.0 MiB on the GPU"));
  EXPECT_THAT([&] { compare_memory(kByStage, 1, {shared}, MemoryLocation::Gpu); },
              ThrowsMessage<Error>(HasSubstr("rank 0 has:    90.0 MiB, 2 workers share its GPU")));
  EXPECT_THAT([&] { compare_memory(kByStage, 3, {{.bytes = kMiB}}, MemoryLocation::Gpu); },
              ThrowsMessage<Error>(HasSubstr("more GPUs, --precision bf16, or offload_optimizer")));
}

TEST(MemoryCheck, CountsAverages) {
  const torch::nn::Linear model(10, 10);
  const torch::optim::SGD sgd(model->parameters(), 0.1);
  ZeroOptions options;
  for (const int stage : {0, 1, 2, 3}) {
    options.stage = stage;
    const MemoryNeed without = strategy::zero::memory_need(*model, sgd, options, 2, {});
    const MemoryNeed with =
        strategy::zero::memory_need(*model, sgd, options, 2, {.averages = true});

    EXPECT_EQ(without.averages, 0);
    EXPECT_EQ(with.averages, stage == 0 ? 440 : 220);
    EXPECT_EQ(with.total(), without.total() + with.averages);
  }
  const std::array<MemoryNeed, 4> averaged = {MemoryNeed{.optimizer = kMiB, .averages = kMiB}};
  EXPECT_THAT(compare_memory(averaged, 0, {{.bytes = 4 * kMiB}}),
              ElementsAre("ZeRO stage 0, rank 0: 1.0 MiB optimizer + 1.0 MiB averages = 2.0 MiB "
                          "of 4.0 MiB"));
}

TEST(MemoryCheck, LeavesOutWhatIsElsewhere) {
  const std::array<MemoryNeed, 4> offloaded = {MemoryNeed{.optimizer = kMiB}};
  EXPECT_THAT(compare_memory(offloaded, 0, {{.bytes = 2 * kMiB}}),
              ElementsAre("ZeRO stage 0, rank 0: 1.0 MiB optimizer of 2.0 MiB"));
}

}  // namespace
}  // namespace lockstep::train
