// SPDX-License-Identifier: Apache-2.0
// A training that is saved in the middle of an epoch under one strategy, stage and world size must
// continue under any other as if it had never stopped.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "common/os/files.h"
#include "lockstep/trainer.h"
#include "support/run_workers.h"
#include "support/session.h"

namespace lockstep {
namespace {

struct Way {
  std::string strategy;
  int stage = 0;
  int workers = 1;

  std::string name() const {
    return fmt::format(
        "{}{} x{}", strategy, strategy == "deepspeed" ? std::to_string(stage) : "", workers);
  }
};

std::vector<Way> ways() {
  std::vector<Way> all = {{"single", 0, 1}};
  for (const int workers : {1, 2, 4}) {
    all.push_back({"ddp", 0, workers});
    all.push_back({"horovod", 0, workers});
    all.push_back({"mirrored", 0, workers});
    for (const int stage : {1, 2, 3}) {
      all.push_back({"deepspeed", stage, workers});
    }
  }
  return all;
}

struct Net : torch::nn::Module {
  Net() {
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) { return second(torch::tanh(first(input))); }

  torch::nn::Linear first = register_module("first", torch::nn::Linear(8, 13));
  torch::nn::Linear second = register_module("second", torch::nn::Linear(13, 4));
};

DatasetPtr points() {
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  const torch::Tensor input = torch::randn({96, 8}, generator);
  return tensors(input, input.narrow(1, 0, 4).argmax(1));
}

// Trains `steps` steps, eight per epoch, and returns the parameters.
torch::Tensor train(const Way& way,
                    const std::filesystem::path& directory,
                    int64_t steps,
                    bool resumes) {
  torch::Tensor result;
  run_workers(way.workers, [&](Communicator& comm) {
    train::Flags flags;
    flags.strategy.emplace(way.strategy);  // GCC 12 warns of an assignment at -O1, wrongly
    flags.resume = resumes ? "auto" : "none";
    Session session = make_session(comm, directory, flags);
    Net net;
    const auto optimizer = session.make_optimizer(net.parameters(), {.name = "adamw", .lr = 0.01});
    // Steps of twelve samples: two epochs are sixteen steps.
    TrainerOptions options{.epochs = 2, .steps = steps, .global_batch = 12};
    options.strategy.zero.stage = way.stage;
    options.strategy.zero.persistence_threshold = 5;
    options.strategy.zero.bucket_elements = 50;
    Trainer(session, options).fit(net, *optimizer, points(), nullptr, CrossEntropy());
    if (comm.rank() == 0) {
      result = torch::cat({net.first->weight.detach().flatten(),
                           net.first->bias.detach(),
                           net.second->weight.detach().flatten(),
                           net.second->bias.detach()});
    }
  });
  return result;
}

// Saved under each one in the middle of the first epoch, resumed under each one.
TEST(ResumeMatrix, GoesOnUnderEveryOtherWay) {
  const os::TemporaryDirectory whole;
  const torch::Tensor wanted = train({"single", 0, 1}, whole.path(), 16, false);
  for (const Way& from : ways()) {
    const os::TemporaryDirectory saved;
    train(from, saved.path(), 5, false);
    for (const Way& to : ways()) {
      const os::TemporaryDirectory directory;
      std::filesystem::copy(
          saved.path(), directory.path(), std::filesystem::copy_options::recursive);
      const torch::Tensor found = train(to, directory.path(), 16, true);
      EXPECT_LE((found - wanted).abs().max().item<double>(), 1e-5)
          << from.name() << " to " << to.name();
    }
  }
}

}  // namespace
}  // namespace lockstep
