// SPDX-License-Identifier: Apache-2.0
// Muon under ZeRO, where no worker holds complete matrices.
#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/muon.h"
#include "support/run_workers.h"
#include "support/tally.h"
#include "training/comm/solo.h"
#include "training/strategy/trained.h"
#include "training/strategy/zero/layout.h"

namespace lockstep {
namespace {

using ::testing::ThrowsMessage;

constexpr int kSteps = 6;
constexpr int kParts = 2;  // micro-batches of one worker

// Buckets of odd sizes, so that shards begin and end within matrices.
ZeroOptions stage(int number) {
  return {.stage = number, .bucket_elements = 700, .persistence_threshold = 40};
}

// Computes the micro-batches of these ranks.
torch::Tensor train_with_muon(Strategy& strategy, const std::vector<int>& ranks) {
  Spared model;
  const auto muon = make_optimizer(model, {.name = "muon", .lr = 0.02, .weight_decay = 0.1});
  strategy.adopt(model, *muon);
  for (int step = 0; step < kSteps; ++step) {
    for (size_t i = 0; i < ranks.size() * kParts; ++i) {
      const int part = static_cast<int>(i) % kParts;
      const double share = 1.0 / (kParts * static_cast<double>(ranks.size()));
      strategy.accumulate(loss_of<Spared>(CrossEntropy()),
                          sample(4, sample_number(step, ranks[i / kParts], part)),
                          {.weight = share, .last = i + 1 == ranks.size() * kParts});
    }
    strategy.step({.clip_norm = step % 2 == 0 ? 0.2 : 0.0});
  }
  const auto use = strategy.use_model();
  return flat_state(model);
}

class MuonUnderZero : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Stages, MuonUnderZero, ::testing::Values(0, 1, 2, 3));

TEST_P(MuonUnderZero, TrainsAsOneProcessDoes) {
  for (const int workers : {1, 2, 3, 4}) {
    comm::Solo solo;
    std::vector<int> all;
    for (int rank = 0; rank < workers; ++rank) {
      all.push_back(rank);
    }
    const torch::Tensor wanted = train_with_muon(*make_strategy("single", solo), all);
    for (const bool overlaps : {false, true}) {
      run_workers(workers, [&](Communicator& comm) {
        Tally tally(comm, overlaps);
        const auto strategy = make_strategy("deepspeed", tally, {.zero = stage(GetParam())});
        const torch::Tensor found = train_with_muon(*strategy, {comm.rank()});
        EXPECT_LE(largest_difference(found, wanted), 1e-10) << workers << " workers";
        const torch::Tensor gathered = comm.all_gather(found);
        EXPECT_TRUE(gathered.eq(gathered[0]).all().item<bool>());
      });
    }
  }
}

// A worker whose shard contains no piece of a matrix, and a matrix without a gradient, still take
// part in the collectives.
TEST_P(MuonUnderZero, LeavesAMatrixAloneThatNoWorkerUses) {
  run_workers(4, [](Communicator& comm) {
    Spared model;
    model.uses_spare = false;
    const torch::Tensor before = model.spare->weight.detach().clone();
    const auto muon = make_optimizer(
        model.parameters(),
        {.name = "muon", .lr = 0.02, .matrices = {model.spare->weight, model.second->weight}});
    const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(GetParam())});
    strategy->adopt(model, *muon);
    strategy->accumulate(loss_of<Spared>(CrossEntropy()), sample(4, 1), {});
    strategy->step();
    const auto use = strategy->use_model();
    EXPECT_TRUE(model.spare->weight.equal(before));
  });
}

TEST(ZeroMuon, PartitionsTheMomentum) {
  run_workers(2, [](Communicator& comm) {
    Spared model;
    const auto muon = make_optimizer(model, {.name = "muon", .lr = 0.02});
    const auto strategy = make_strategy("deepspeed", comm, {.zero = stage(2)});
    strategy->adopt(model, *muon);
    strategy->accumulate(loss_of<Spared>(CrossEntropy()), sample(4, 1), {});
    strategy->step();
    torch::Tensor held = torch::zeros({1}, torch::kInt64);
    for (const auto& [key, state] : muon->state()) {
      held += dynamic_cast<const MuonParamState&>(*state).exp_avg().numel();
    }
    comm.all_reduce(held);
    EXPECT_EQ(held.item<int64_t>(), flat_state(model).numel());
  });
}

TEST(ZeroMuon, CanMakeStepsAfterItIsGivenBack) {
  comm::Solo solo;
  Spared model;
  const auto muon = make_optimizer(model, {.name = "muon", .lr = 0.01});
  const auto strategy = make_strategy("deepspeed", solo, {.zero = stage(2)});
  strategy->adopt(model, *muon);
  strategy->accumulate(loss_of<Spared>(CrossEntropy()), sample(4, 1), {});
  strategy->step();
  strategy->leave();
  const torch::Tensor before = model.second->weight.detach().clone();
  CrossEntropy()(model, sample(4, 2)).value.backward();
  muon->step();
  EXPECT_FALSE(model.second->weight.equal(before));
}

TEST(ZeroMuon, IsRejectedWithAnOptimizerInHostMemory) {
  comm::Solo solo;
  Spared model;
  const auto muon = make_optimizer(model, {.name = "muon"});
  ZeroOptions zero = stage(2);
  zero.offload_optimizer = true;
  EXPECT_THAT([&] { make_strategy("deepspeed", solo, {.zero = zero})->adopt(model, *muon); },
              ThrowsMessage<Error>("cannot use muon with offload_optimizer\n"
                                   "  reason: the products of complete matrices would be computed "
                                   "on the CPU\n"
                                   "  try:    no offload_optimizer, or --optimizer adamw"));
}

}  // namespace
}  // namespace lockstep
