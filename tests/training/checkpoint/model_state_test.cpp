// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/lamb.h"
#include "lockstep/optimizer.h"
#include "training/checkpoint/support.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> names(const NamedTensors& tensors) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : tensors) {
    result.push_back(name);
  }
  return result;
}

// Copies, as from a file.
NamedTensors snapshot(const torch::nn::Module& model) {
  NamedTensors copies = collect_model(model);
  for (auto& [name, tensor] : copies) {
    tensor = tensor.detach().clone();
  }
  return copies;
}

TEST(ModelState, HasTheNamesAndTheOrderOfPython) {
  EXPECT_THAT(names(collect_model(*Net())),
              ElementsAre("scale",
                          "conv.weight",
                          "conv.bias",
                          "norm.weight",
                          "norm.bias",
                          "norm.running_mean",
                          "norm.running_var",
                          "norm.num_batches_tracked",
                          "head.0.weight",
                          "head.0.bias",
                          "head.1.weight",
                          "head.1.bias"));
}

TEST(ModelState, PassesFromOneModelToAnother) {
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  train_step(net, sgd, 1);
  Net other;

  apply_model(*other, snapshot(*net), "model.pt");

  EXPECT_TRUE(identical(collect_model(*other), collect_model(*net)));
  EXPECT_TRUE(other->scale.requires_grad());
}

// Weights from before PyTorch 0.4.1 lack num_batches_tracked.
TEST(ModelState, DoesWithoutTheBatchesThatANormHasSeen) {
  Net net;
  torch::optim::SGD sgd(net->parameters(), 0.1);
  train_step(net, sgd, 1);
  NamedTensors weights = snapshot(*net);
  std::erase_if(weights, [](const auto& item) { return item.first == "norm.num_batches_tracked"; });
  Net other;

  apply_model(*other, weights, "model.pt");

  EXPECT_TRUE(other->norm->running_mean.equal(net->norm->running_mean));
  EXPECT_EQ(other->norm->num_batches_tracked.item<int64_t>(), 0);
}

TEST(ModelState, NamesTheFirstDifferenceAndChangesNothing) {
  struct Case {
    std::function<void(NamedTensors&)> change;
    std::string message;
  };
  const Case table[] = {
      {[](NamedTensors& t) { t.erase(t.begin() + 2); },
       "  differs: conv.bias\n  file:    has no such tensor\n  model:   float [3]"},
      {[](NamedTensors& t) { t.emplace_back("tail.bias", torch::ones({2})); },
       "  differs: tail.bias\n  file:    float [2]\n  model:   has no such parameter or buffer"},
      {[](NamedTensors& t) {
         t[8].second = torch::ones({5, 12});
       },
       "  differs: head.0.weight\n  file:    float [5, 12]\n  model:   float [4, 12]"},
      {[](NamedTensors& t) { t[0].second = torch::ones({1}, torch::kDouble); },
       "  differs: scale\n  file:    double [1]\n  model:   float [1]"},
      {[](NamedTensors& t) { t[3].first = "bn.weight"; },
       "  differs: norm.weight, the first of 2 differences\n  file:    has no such tensor\n"
       "  model:   float [3]"},
  };

  for (const Case& one : table) {
    SCOPED_TRACE(one.message);
    Net net;
    const NamedTensors before = snapshot(*net);
    NamedTensors weights = snapshot(*Net());
    one.change(weights);

    EXPECT_EQ(error_of([&] { apply_model(*net, weights, "runs/1/model.pt"); }),
              "64 cannot load runs/1/model.pt: it belongs to another model\n" + one.message);
    EXPECT_TRUE(identical(collect_model(*net), before));
  }
}

using MakeOptimizer =
    std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor>)>;

template <typename Optimizer, typename Options>
MakeOptimizer make(Options options) {
  return [options](std::vector<torch::Tensor> parameters) {
    return std::make_unique<Optimizer>(std::move(parameters), options);
  };
}

std::unique_ptr<torch::optim::Optimizer> make_muon(std::vector<torch::Tensor> parameters) {
  OptimizerOptions options{.name = "muon"};
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.dim() >= 2) {
      options.matrices.push_back(parameter);
    }
  }
  return lockstep::make_optimizer(std::move(parameters), options);
}

const std::vector<MakeOptimizer>& optimizers() {
  using namespace torch::optim;
  static const std::vector<MakeOptimizer> all = {
      make<SGD>(SGDOptions(0.05)),
      make<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true).weight_decay(1e-4)),
      make<Adam>(AdamOptions(0.01).betas({0.8, 0.99})),
      make<AdamW>(AdamWOptions(0.01).amsgrad(true)),
      make<Lamb>(LambOptions(0.01).weight_decay(0.1).max_coeff(3)),
      make<torch::optim::Adagrad>(torch::optim::AdagradOptions(0.01).lr_decay(0.1)),
      make_muon};
  return all;
}

TEST(OptimizerState, ContinuesBitByBitWhereItStopped) {
  os::TemporaryDirectory directory;
  for (const MakeOptimizer& make_optimizer : optimizers()) {
    Net net;
    const auto optimizer = make_optimizer(net->parameters());
    for (int step = 0; step < 3; ++step) {
      train_step(net, *optimizer, step);
    }
    save_weights(directory.path() / "model.pt", collect_model(*net));
    save_value(directory.path() / "optimizer.pt",
               collect_optimizer(*optimizer, collect_model(*net)));

    Net resumed;
    const auto other = make_optimizer(resumed->parameters());
    train_step(resumed, *other, 9);
    apply_model(*resumed, load_weights(directory.path() / "model.pt"), "model.pt");
    apply_optimizer(*other,
                    collect_model(*resumed),
                    load_value(directory.path() / "optimizer.pt"),
                    "optimizer.pt");
    for (int step = 3; step < 6; ++step) {
      train_step(net, *optimizer, step);
      train_step(resumed, *other, step);
    }

    EXPECT_TRUE(identical(collect_model(*resumed), collect_model(*net)));
  }
}

TEST(OptimizerState, BringsTheOptionsOfEachGroup) {
  const auto groups_of = [](Net& net, double first_rate, double second_rate) {
    using torch::optim::SGDOptions;
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(net->conv->parameters(), std::make_unique<SGDOptions>(first_rate));
    groups.emplace_back(net->head->parameters(), std::make_unique<SGDOptions>(second_rate));
    return std::make_unique<torch::optim::SGD>(groups, SGDOptions(1.0));
  };
  Net net;
  const auto saved = groups_of(net, 0.25, 0.5);
  const auto other = groups_of(net, 0.1, 0.1);

  apply_optimizer(
      *other, collect_model(*net), collect_optimizer(*saved, collect_model(*net)), "optimizer.pt");

  EXPECT_EQ(other->param_groups()[0].options().get_lr(), 0.25);
  EXPECT_EQ(other->param_groups()[1].options().get_lr(), 0.5);
}

TEST(OptimizerState, OfAnotherKindOrModelIsRefusedAndChangesNothing) {
  Net net;
  torch::optim::Adam adam(net->parameters(), torch::optim::AdamOptions(0.5));
  train_step(net, adam, 1);
  const NamedTensors parameters = collect_model(*net);
  const c10::IValue before = collect_optimizer(adam, parameters);

  const torch::optim::SGD sgd(net->parameters(), 0.1);
  EXPECT_EQ(error_of([&] {
              apply_optimizer(adam, parameters, collect_optimizer(sgd, parameters), "o.pt");
            }),
            "64 cannot load o.pt: it belongs to another optimizer\n  file:    SGD\n"
            "  program: Adam");

  const torch::optim::Adam half(net->head->parameters(), torch::optim::AdamOptions(0.1));
  EXPECT_EQ(error_of([&] {
              apply_optimizer(adam, parameters, collect_optimizer(half, parameters), "o.pt");
            }),
            "64 cannot load o.pt: the parameters of group 0 differ\n"
            "  file:    head.0.weight, head.0.bias, head.1.weight, head.1.bias\n"
            "  program: scale, conv.weight, conv.bias, norm.weight, norm.bias, head.0.weight, "
            "head.0.bias, head.1.weight, head.1.bias");

  Net wide(6);
  torch::optim::Adam other(wide->parameters(), torch::optim::AdamOptions(0.1));
  train_step(wide, other, 1);
  EXPECT_EQ(error_of([&] {
              apply_optimizer(
                  adam, parameters, collect_optimizer(other, collect_model(*wide)), "o.pt");
            }),
            "64 cannot load o.pt: it does not match this optimizer\n  differs: \"exp_avg\" of "
            "head.0.weight is float [6, 12], the parameter is float [4, 12]");
  EXPECT_EQ(error_of([&] { apply_optimizer(adam, parameters, 3, "o.pt"); }),
            "64 cannot load o.pt: it contains no optimizer state of lockstep\n  missing: \"kind\"");

  EXPECT_EQ(adam.param_groups()[0].options().get_lr(), 0.5);
  const auto state = [](const c10::IValue& value) {
    return value.toGenericDict()
        .at("state")
        .toGenericDict()
        .at("head.0.weight")
        .toGenericDict()
        .at("exp_avg")
        .toTensor();
  };
  EXPECT_TRUE(identical(state(collect_optimizer(adam, parameters)), state(before)));
}

TEST(OptimizerState, OfUnknownKindsIsRefused) {
  Net net;
  const torch::optim::RMSprop rms(net->parameters(), torch::optim::RMSpropOptions(0.1));

  EXPECT_EQ(
      error_of([&] { collect_optimizer(rms, collect_model(*net)); }),
      "64 cannot save or load the state of this optimizer\n  available: SGD, Adam, AdamW, Lamb, "
      "Adagrad, Muon");
}

}  // namespace
}  // namespace lockstep::checkpoint
