// SPDX-License-Identifier: Apache-2.0
// Real networks on generated digits.
#include <gmock/gmock.h>
#include <numeric>

#include "lockstep/datasets.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"
#include "support/run_workers.h"
#include "support/tally.h"

namespace lockstep {
namespace {

using ::testing::ElementsAreArray;

Batch all_of(const Dataset& dataset) {
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return dataset.batch(indices);
}

// The network that every run starts from. Ranks that are threads share the generator of libtorch,
// so none of them may initialize it.
std::vector<torch::Tensor> drawn_start() {
  torch::manual_seed(1);
  return digit_net("mlp")->parameters();
}

// The fraction of test images that a network classifies correctly after 100 steps of 64.
double accuracy(Communicator& comm,
                const DatasetPair& digits,
                const std::vector<torch::Tensor>& start,
                const StrategyOptions& options) {
  const auto net = digit_net("mlp");
  for (size_t i = 0; i < start.size(); ++i) {
    net->parameters()[i].detach().copy_(start[i].detach());
  }
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  const auto strategy = make_strategy("ddp", comm, options);
  strategy->adopt(*net, sgd);
  const Batch train = all_of(*digits.train);
  const int64_t share = 64 / comm.size();
  for (int64_t step = 0; step < 100; ++step) {
    const int64_t begin = (step * 64) % train.size() + share * comm.rank();
    strategy->accumulate(
        loss_of<ImageClassifier>(CrossEntropy()), train.slice(begin, begin + share), {});
    strategy->step();
  }
  net->eval();
  torch::NoGradGuard no_grad;
  const Batch test = all_of(*digits.test);
  return net->forward(test.input)
      .argmax(1)
      .eq(test.target)
      .to(torch::kFloat64)
      .mean()
      .item<double>();
}

TEST(DdpOnDigits, LearnsAsMuchWithSmallerGradients) {
  const DatasetPair digits = generated_digits(1280, 500, 3);
  const std::vector<torch::Tensor> start = drawn_start();
  run_workers(2, [&](Communicator& comm) {
    Tally tally(comm);
    const double whole = accuracy(tally, digits, start, {});
    const auto whole_bytes = static_cast<double>(tally.take_bytes());
    const double half = accuracy(tally, digits, start, {.compression = Compression::Fp16});
    const double brain = accuracy(tally, digits, start, {.compression = Compression::Bf16});
    tally.take_bytes();
    const double low =
        accuracy(tally,
                 digits,
                 start,
                 {.compression = Compression::PowerSgd, .powersgd_rank = 4, .powersgd_start = 10});
    const auto low_bytes = static_cast<double>(tally.take_bytes());

    EXPECT_GT(whole, 0.8);
    // With 500 images, differences of 0.015 are random.
    EXPECT_NEAR(half, whole, 0.04);
    EXPECT_NEAR(brain, whole, 0.04);
    EXPECT_GT(low, whole - 0.05);
    // Ten of a hundred steps uncompressed, then 4 (n + m) numbers for each matrix.
    EXPECT_LT(low_bytes / whole_bytes, 0.15);
    EXPECT_GT(low_bytes / whole_bytes, 0.10);
  });
}

// If buckets were rebuilt later, in the order in which gradients became ready, a resumed run would
// start with other buckets than the original run had at that step.
TEST(DdpOnDigits, CutsItsBucketsOnce) {
  const Batch batch = all_of(*generated_digits(8, 1, 3).train);
  for (const std::string& name : digit_net_names()) {
    run_workers(2, [&](Communicator& comm) {
      Tally tally(comm);
      const auto net = digit_net(name);
      torch::optim::SGD sgd(net->parameters(), 0.1);
      const auto strategy =
          make_strategy("ddp", tally, {.first_bucket_bytes = 1 << 10, .bucket_bytes = 4 << 10});
      strategy->adopt(*net, sgd);
      std::vector<std::vector<int64_t>> sizes;
      tally.take_sizes();
      for (int step = 0; step < 3; ++step) {
        strategy->accumulate(loss_of<ImageClassifier>(CrossEntropy()), batch, {});
        strategy->step();
        sizes.push_back(tally.take_sizes());
      }

      EXPECT_GT(sizes[0].size(), 2U) << name;
      EXPECT_THAT(sizes[1], ElementsAreArray(sizes[0])) << name;
      EXPECT_THAT(sizes[2], ElementsAreArray(sizes[0])) << name;
    });
  }
}

}  // namespace
}  // namespace lockstep
