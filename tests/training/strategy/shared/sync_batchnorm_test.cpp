// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/sync_batchnorm.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/strategy.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using ::testing::ThrowsMessage;

// Batch norm after a convolution, after a linear layer, and without weights.
struct Net : torch::nn::Module {
  Net() {
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    to(torch::kFloat64);
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator, torch::dtype(torch::kFloat64)) *
                      0.3);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    torch::Tensor features = torch::relu(norm2d(conv(input))).flatten(1);
    features = torch::relu(norm1d(linear(features)));
    return last(plain(features.view({-1, 3, 2, 1, 1})).flatten(1));
  }

  torch::nn::Conv2d conv = register_module("conv", torch::nn::Conv2d(2, 3, 3));
  torch::nn::BatchNorm2d norm2d = register_module("norm2d", torch::nn::BatchNorm2d(3));
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(3 * 4 * 4, 6));
  torch::nn::BatchNorm1d norm1d = register_module(
      "norm1d", torch::nn::BatchNorm1d(torch::nn::BatchNormOptions(6).momentum(0.3)));
  torch::nn::BatchNorm3d plain = register_module(
      "plain", torch::nn::BatchNorm3d(torch::nn::BatchNormOptions(3).affine(false)));
  torch::nn::Linear last = register_module("last", torch::nn::Linear(6, 4));
};

Batch whole_batch(int64_t samples, int seed) {
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return {torch::randn({samples, 2, 6, 6}, generator, torch::dtype(torch::kFloat64)) + seed,
          torch::randint(4, {samples}, generator)};
}

// The part of the batch of a worker, never empty: rank r has 1 + r parts.
Batch uneven_share(const Batch& whole, int rank, int size) {
  const int64_t parts = int64_t{size} * (size + 1) / 2;
  const auto cut = [&](int64_t before) {
    return whole.size() * (before * (before + 1) / 2) / parts;
  };
  return whole.slice(cut(rank), cut(rank + 1));
}

double largest_difference(const torch::nn::Module& one, const torch::nn::Module& other) {
  double largest = 0;
  const auto compare = [&largest](const auto& left, const auto& right) {
    for (size_t i = 0; i < left.size(); ++i) {
      largest = std::max(largest,
                         (left[i].detach().to(torch::kFloat64) - right[i].detach())
                             .abs()
                             .max()
                             .template item<double>());
    }
  };
  compare(one.parameters(), other.parameters());
  compare(one.buffers(), other.buffers());
  return largest;
}

class SharedStatistics : public ::testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(SharedStatistics, AreThoseOfOneProcessOnTheWholeBatch) {
  const auto& [strategy_name, workers] = GetParam();
  run_workers(workers, [name = strategy_name](Communicator& comm) {
    const LossFunction loss = loss_of<Net>(CrossEntropy());
    Net alone;
    torch::optim::SGD alone_sgd(alone.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    comm::Solo solo;
    const auto single = make_strategy("single", solo);
    single->adopt(alone, alone_sgd);
    Net net;
    torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
    const auto strategy = make_strategy(name, comm, {.sync_batchnorm = true});
    strategy->adopt(net, sgd);

    for (int step = 0; step < 10; ++step) {
      const Batch whole = whole_batch(23, step);
      const Batch share = uneven_share(whole, comm.rank(), comm.size());
      single->accumulate(loss, whole, {});
      single->step();
      strategy->accumulate(
          loss, share, {.weight = static_cast<double>(share.size() * comm.size()) / 23});
      strategy->step();
    }

    EXPECT_LE(largest_difference(net, alone), 1e-10);
    EXPECT_EQ(net.norm2d->num_batches_tracked.item<int64_t>(), 10);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies,
                         SharedStatistics,
                         ::testing::Combine(::testing::Values("ddp", "horovod", "mirrored"),
                                            ::testing::Values(1, 2, 3, 4)),
                         [](const auto& each) {
                           return std::get<0>(each.param) + "On" +
                                  std::to_string(std::get<1>(each.param)) + "Workers";
                         });

TEST(SyncBatchNorm, HasTheGradientsOfTheWholeBatch) {
  run_workers(3, [](Communicator& comm) {
    const strategy::SyncBatchNorm shared(comm, {.sync_batchnorm = true});
    const Batch whole = whole_batch(23, 4);
    const Batch share = uneven_share(whole, comm.rank(), comm.size());
    Net alone;
    torch::Tensor all = whole.input.clone().set_requires_grad(true);
    (alone.forward(all).square().sum()).backward();
    Net net;
    torch::Tensor mine = share.input.clone().set_requires_grad(true);

    {
      const auto scope = shared.enter();
      net.forward(mine).square().sum().backward();
    }

    const torch::Tensor expected =
        uneven_share({all.grad(), whole.target}, comm.rank(), comm.size()).input;
    EXPECT_LE((mine.grad() - expected).abs().max().item<double>(), 1e-12);
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      torch::Tensor sum = net.parameters()[i].grad();
      comm.all_reduce(sum);
      const torch::Tensor wanted = alone.parameters()[i].grad();
      EXPECT_LE((sum - wanted).abs().max().item<double>(),
                1e-12 * (1 + wanted.abs().max().item<double>()))
          << alone.named_parameters()[i].key();
    }
  });
}

TEST(SyncBatchNorm, LeavesAloneWhatIsNotInItsScope) {
  run_workers(2, [](Communicator& comm) {
    const strategy::SyncBatchNorm shared(comm, {.sync_batchnorm = true});
    const torch::Tensor input = whole_batch(4, comm.rank()).input;
    const torch::Tensor mean = input.mean({0, 2, 3});

    torch::nn::BatchNorm2d outside(torch::nn::BatchNormOptions(2).momentum(1.0));
    outside->to(torch::kFloat64);
    outside->forward(input);
    torch::nn::BatchNorm2d evaluated(2);
    evaluated->to(torch::kFloat64);
    evaluated->eval();
    torch::nn::InstanceNorm2d instance(torch::nn::InstanceNormOptions(2));
    torch::Tensor same;
    torch::Tensor single;
    if (comm.rank() == 0) {  // a collective would wait for the other rank forever
      const auto scope = shared.enter();
      same = evaluated->forward(input);
      single = instance->forward(input);
    }

    EXPECT_TRUE(outside->running_mean.allclose(mean));
    if (comm.rank() == 0) {
      EXPECT_TRUE(same.allclose(input, 1e-4));
      EXPECT_NEAR(single[1][0].mean().item<double>(), 0, 1e-10);
    }
  });
}

TEST(SyncBatchNorm, UpdatesRunningStatisticsWithoutGradientsToo) {
  run_workers(2, [](Communicator& comm) {
    const strategy::SyncBatchNorm shared(comm, {.sync_batchnorm = true});
    const torch::Tensor input = whole_batch(6, 1).input;
    torch::nn::BatchNorm2d norm(torch::nn::BatchNormOptions(2).momentum(1.0));
    norm->to(torch::kFloat64);

    {
      torch::NoGradGuard no_grad;
      const auto scope = shared.enter();
      norm->forward(comm.rank() == 0 ? input.narrow(0, 0, 2) : input.narrow(0, 2, 4));
    }

    EXPECT_TRUE(norm->running_var.allclose(input.transpose(0, 1).flatten(1).var(1), 1e-12, 1e-12));
  });
}

TEST(SyncBatchNorm, RefusesWorkersThatRunOutOfBatches) {
  run_workers(2, [](Communicator& comm) {
    EXPECT_THAT([&] { strategy::SyncBatchNorm(comm, {.uneven = true, .sync_batchnorm = true}); },
                ThrowsMessage<Error>(
                    "--sync-batchnorm does not support uneven inputs\n"
                    "  requested: sync_batchnorm and uneven  (StrategyOptions)\n"
                    "  try:       drop --sync-batchnorm, or give every worker the same number of "
                    "batches"));
  });
}

}  // namespace
}  // namespace lockstep
