// SPDX-License-Identifier: Apache-2.0
#include "lockstep/recompute.h"

#include <gmock/gmock.h>

#include "lockstep/error.h"
#include "lockstep/strategy.h"
#include "support/run_workers.h"
#include "training/comm/solo.h"
#include "training/models/autocast.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct Net : torch::nn::Module {
  explicit Net(bool recomputed, double dropout = 0) : recomputes(recomputed) {
    block = register_module("block",
                            torch::nn::Sequential(torch::nn::Linear(4, 6),
                                                  torch::nn::BatchNorm1d(6),
                                                  torch::nn::Dropout(dropout),
                                                  torch::nn::Tanh(),
                                                  torch::nn::Linear(6, 4)));
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator));
    }
  }

  // The block is used twice: two parts of the graph share its weights.
  torch::Tensor forward(const torch::Tensor& input) {
    if (recomputes) {
      return last(recompute(block, torch::relu(recompute(block, input))));
    }
    return last(block->forward(torch::relu(block->forward(input))));
  }

  bool recomputes;
  torch::nn::Sequential block{nullptr};
  torch::nn::Linear last = register_module("last", torch::nn::Linear(4, 3));
  torch::nn::Linear spare = register_module("spare", torch::nn::Linear(4, 3));
};

Batch batch_of(int seed) {
  torch::Generator generator =
      torch::make_generator<torch::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  return {torch::randn({6, 4}, generator), torch::randint(3, {6}, generator)};
}

std::vector<torch::Tensor> whole_state(const Net& net) {
  std::vector<torch::Tensor> state;
  for (const torch::Tensor& tensor : net.parameters()) {
    state.push_back(tensor.detach());
  }
  for (const torch::Tensor& tensor : net.buffers()) {
    state.push_back(tensor);
  }
  return state;
}

void expect_equal(const std::vector<torch::Tensor>& some,
                  const std::vector<torch::Tensor>& others) {
  for (size_t i = 0; i < some.size(); ++i) {
    EXPECT_EQ(some[i].defined(), others[i].defined());
    EXPECT_TRUE(!some[i].defined() || some[i].equal(others[i])) << i;
  }
}

std::vector<torch::Tensor> gradients_of(Net& net, bool input_wants_gradient) {
  torch::manual_seed(5);
  const Batch batch = batch_of(1);
  torch::Tensor input = batch.input.clone().set_requires_grad(input_wants_gradient);
  CrossEntropy()(net, {input, batch.target}).value.backward();
  std::vector<torch::Tensor> gradients = {input.grad(), torch::rand({3})};
  for (const torch::Tensor& parameter : net.parameters()) {
    gradients.push_back(parameter.grad());
  }
  return gradients;
}

TEST(Recompute, HasTheGradientsOfThePlainCallToTheBitWithDropout) {
  for (const bool input_wants_gradient : {false, true}) {
    Net plain(false, 0.4);
    Net recomputed(true, 0.4);

    // Random numbers drawn after backward, in gradients_of, must be equal too.
    expect_equal(gradients_of(recomputed, input_wants_gradient),
                 gradients_of(plain, input_wants_gradient));
    expect_equal(whole_state(recomputed), whole_state(plain));
  }
}

TEST(Recompute, KeepsNothingInsideTheBlock) {
  int64_t calls = 0;
  torch::nn::Linear linear(4, 4);
  const torch::Tensor output =
      recompute(RecomputedBlock{.forward =
                                    [&](const torch::Tensor& input) {
                                      ++calls;
                                      const torch::Tensor inner = linear(input);
                                      EXPECT_EQ(inner.requires_grad(), calls == 2);
                                      return inner * inner;
                                    },
                                .parameters = linear->parameters()},
                torch::ones({2, 4}));
  EXPECT_EQ(calls, 1);

  output.sum().backward();

  EXPECT_EQ(calls, 2);
}

TEST(Recompute, HasTheSameAutocastInBackward) {
  Net plain(false);
  Net recomputed(true);
  const auto in_bf16 = [](Net& net) {
    const Batch batch = batch_of(1);
    torch::Tensor loss;
    {
      const models::AutocastScope scope(torch::kCPU, torch::kBFloat16);
      loss = CrossEntropy()(net, batch).value;
    }
    loss.backward();
    return net.block->parameters()[0].grad();
  };

  EXPECT_TRUE(in_bf16(recomputed).equal(in_bf16(plain)));
}

TEST(Recompute, IsThePlainCallWithoutGradients) {
  torch::NoGradGuard no_grad;
  int calls = 0;
  recompute(RecomputedBlock{.forward =
                                [&calls](const torch::Tensor& input) {
                                  ++calls;
                                  return input * 2;
                                },
                            .parameters = {}},
            torch::ones({2}));
  EXPECT_EQ(calls, 1);
}

TEST(Recompute, RefusesRandomNumbersThatAnotherThreadMixedUp) {
  torch::Tensor weight = torch::ones({8}).set_requires_grad(true);
  int calls = 0;
  const torch::Tensor output =
      recompute(RecomputedBlock{.forward =
                                    [&calls](const torch::Tensor& input) {
                                      if (++calls == 1) {
                                        torch::rand({100});  // as another thread would
                                      }
                                      return torch::dropout(input, 0.5, true);
                                    },
                                .parameters = {weight}},
                weight * 2);

  EXPECT_THAT([&] { output.sum().backward(); },
              ThrowsMessage<Error>("cannot recompute a block: another thread drew random "
                                   "numbers while it ran\n"
                                   "  try: train without --recompute, without dropout, or with one "
                                   "worker per process"));
}

class RecomputeUnder : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(RecomputeUnder, TrainsAsThePlainCallToTheBit) {
  const auto& [strategy_name, shared] = GetParam();
  run_workers(2, [name = strategy_name, sync = shared](Communicator& comm) {
    const auto train = [&](Net& net) {
      torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      const auto strategy =
          make_strategy(name, comm, {.find_unused_parameters = true, .sync_batchnorm = sync});
      strategy->adopt(net, sgd);
      for (int step = 0; step < 4; ++step) {
        strategy->accumulate(
            loss_of<Net>(CrossEntropy()), batch_of(4 * step + comm.rank()), {.last = false});
        strategy->accumulate(
            loss_of<Net>(CrossEntropy()), batch_of(4 * step + 2 + comm.rank()), {});
        strategy->step();
      }
      return whole_state(net);
    };
    Net plain(false);
    Net recomputed(true);
    const torch::Tensor spare = plain.spare->weight.detach().clone();

    expect_equal(train(recomputed), train(plain));

    EXPECT_TRUE(recomputed.spare->weight.detach().equal(spare));
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies,
                         RecomputeUnder,
                         ::testing::Combine(::testing::Values("ddp", "horovod", "mirrored"),
                                            ::testing::Bool()),
                         [](const auto& each) {
                           return std::get<0>(each.param) +
                                  (std::get<1>(each.param) ? "WithSyncBatchNorm" : "");
                         });

}  // namespace
}  // namespace lockstep
