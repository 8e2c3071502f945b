// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trainer.h"

#include <array>
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <numeric>
#include <thread>

#include "common/contract/event.h"
#include "common/os/files.h"
#include "lockstep/checkpoint.h"
#include "lockstep/error.h"
#include "support/comes_true.h"
#include "support/run_workers.h"
#include "support/session.h"
#include "support/step_events.h"
#include "training/comm/call_record.h"
#include "training/comm/solo.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Net : torch::nn::Module {
  explicit Net(double dropout, int64_t width = 16)
      : first(register_module("first", torch::nn::Linear(8, width))),
        norm(register_module("norm", torch::nn::BatchNorm1d(width))),
        drop(register_module("drop", torch::nn::Dropout(dropout))),
        second(register_module("second", torch::nn::Linear(width, 4))) {}

  // Ranks are threads here and share the generator of libtorch; these weights do not depend on it.
  void start() {
    torch::NoGradGuard no_grad;
    torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{9});
    for (torch::Tensor& parameter : parameters()) {
      parameter.copy_(torch::randn(parameter.sizes(), generator) * 0.3);
    }
  }

  torch::Tensor forward(const torch::Tensor& input) {
    return second(drop(torch::relu(norm(first(input)))));
  }

  torch::nn::Linear first;
  torch::nn::BatchNorm1d norm;
  torch::nn::Dropout drop;
  torch::nn::Linear second;
};

DatasetPtr points(int64_t count) {
  torch::Generator generator = torch::make_generator<torch::CPUGeneratorImpl>(uint64_t{3});
  const torch::Tensor input = torch::randn({count, 8}, generator);
  return tensors(input, input.narrow(1, 0, 4).argmax(1));
}

struct Recipe {
  train::Flags flags = {};
  TrainerOptions options = {.epochs = 2, .global_batch = 12, .schedule = "cosine"};
  double dropout = 0;
  std::string optimizer = "adam";
  DatasetPtr test = nullptr;
};

// Trains and returns every parameter and buffer, one after the other.
torch::Tensor train_once(Communicator& comm,
                         const std::filesystem::path& directory,
                         const Recipe& run) {
  Session session = make_session(comm, directory, run.flags);
  Net net(run.dropout);
  net.start();
  const auto optimizer =
      session.make_optimizer(net.parameters(), {.name = run.optimizer, .lr = 0.01});
  Trainer trainer(session, run.options);
  trainer.fit(net, *optimizer, points(100), run.test, CrossEntropy());
  std::vector<torch::Tensor> all;
  for (const auto& item : collect_model(net)) {
    all.push_back(item.second.detach().to(torch::kFloat64).flatten());
  }
  return torch::cat(all);
}

TEST(Trainer, ResumesInTheMiddleOfAnEpochBitForBit) {
  for (const std::string optimizer : {"sgd", "adam", "adamw"}) {
    SCOPED_TRACE(optimizer);
    comm::Solo solo;
    const os::TemporaryDirectory whole;
    const os::TemporaryDirectory halves;
    Recipe run{.dropout = 0.3, .optimizer = optimizer, .test = points(30)};
    const torch::Tensor uninterrupted = train_once(solo, whole.path(), run);

    // 8 steps in an epoch: 11 steps end in the middle of the second one.
    Recipe first = run;
    first.options.checkpoint_every = 11;
    train_once(solo, halves.path(), first);
    os::remove_tree(halves.path() / "checkpoints" / "step-00000016");
    Recipe second = run;
    second.flags.resume = "auto";
    const torch::Tensor resumed = train_once(solo, halves.path(), second);

    EXPECT_TRUE(resumed.equal(uninterrupted));
  }
}

TEST(Trainer, ResumesSeveralWorkersBitForBit) {
  const os::TemporaryDirectory whole;
  const os::TemporaryDirectory halves;
  Recipe run;
  run.options.accumulate = 2;
  torch::Tensor uninterrupted;
  run_workers(2, [&](Communicator& comm) {
    const torch::Tensor result = train_once(comm, whole.path(), run);
    if (comm.rank() == 0) {
      uninterrupted = result;
    }
  });

  Recipe first = run;
  first.options.checkpoint_every = 5;
  run_workers(2, [&](Communicator& comm) { train_once(comm, halves.path(), first); });
  for (const auto& entry : list_checkpoints(halves.path() / "checkpoints")) {
    if (entry.step > 5) {
      os::remove_tree(entry.directory);
    }
  }
  Recipe second = run;
  second.flags.resume = "auto";
  run_workers(2, [&](Communicator& comm) {
    const torch::Tensor resumed = train_once(comm, halves.path(), second);
    EXPECT_TRUE(comm.rank() != 0 || resumed.equal(uninterrupted));
  });
}

TEST(Trainer, SkipsADamagedCheckpointAndUsesTheOneBefore) {
  comm::Solo solo;
  const os::TemporaryDirectory whole;
  const os::TemporaryDirectory damaged;
  Recipe run;
  const torch::Tensor uninterrupted = train_once(solo, whole.path(), run);
  run.options.checkpoint_every = 6;
  run.options.keep_checkpoints = 9;
  train_once(solo, damaged.path(), run);
  for (const auto& entry : list_checkpoints(damaged.path() / "checkpoints")) {
    if (entry.step > 6) {
      std::ofstream(entry.directory / "shard-00000-of-00001.safetensors",
                    std::ios::in | std::ios::out)
          .write("damage", 6);
    }
  }

  ::testing::internal::CaptureStderr();
  Recipe second = run;
  second.flags.resume = "auto";
  const torch::Tensor resumed = train_once(solo, damaged.path(), second);
  const std::string said = ::testing::internal::GetCapturedStderr();

  EXPECT_TRUE(resumed.equal(uninterrupted));
  EXPECT_THAT(said, HasSubstr("shard-00000-of-00001.safetensors is damaged"));
  EXPECT_THAT(said, HasSubstr("resumed at step 6"));
}

TEST(Trainer, RefusesTheCheckpointOfAnotherModel) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  train_once(solo, directory.path(), {});
  train::Flags flags;
  flags.resume = "auto";
  Session session = make_session(solo, directory.path(), flags);
  Net wider(0, 17);
  const auto optimizer = session.make_optimizer(wider.parameters(), {.name = "adam", .lr = 0.01});
  const torch::Tensor before = wider.first->weight.detach().clone();
  Trainer trainer(session, {.epochs = 3, .global_batch = 12});

  EXPECT_THAT([&] { trainer.fit(wider, *optimizer, points(100), nullptr, CrossEntropy()); },
              ::testing::Throws<Error>(::testing::Property(&Error::code, ExitCode::Usage)));
  EXPECT_TRUE(wider.first->weight.detach().equal(before));
}

TEST(Trainer, GoesOnWithAnotherNumberOfWorkers) {
  const os::TemporaryDirectory whole;
  const os::TemporaryDirectory directory;
  Recipe run{.optimizer = "sgd"};
  run.options.checkpoint_every = 6;
  comm::Solo solo;
  train_once(solo, directory.path(), run);
  for (const auto& entry : list_checkpoints(directory.path() / "checkpoints")) {
    if (entry.step > 6) {
      os::remove_tree(entry.directory);
    }
  }
  run.flags.resume = "auto";
  run_workers(3, [&](Communicator& comm) {
    const torch::Tensor result = train_once(comm, directory.path(), run);
    EXPECT_TRUE(result.isfinite().all().item<bool>());
  });

  EXPECT_EQ(list_checkpoints(directory.path() / "checkpoints").back().step, 16);
}

TEST(Trainer, EvaluatesEverySampleExactlyOnce) {
  for (const int size : {1, 2, 3, 5}) {
    run_workers(size, [&](Communicator& comm) {
      const os::TemporaryDirectory directory;
      Session session = make_session(comm, directory.path());
      Net net(0);
      net.start();
      Trainer trainer(session, {.global_batch = 12, .evaluation_batch = 4});

      const Evaluation result = trainer.evaluate(net, points(31), CrossEntropy());

      EXPECT_EQ(result.samples, 31);
      net.eval();
      torch::NoGradGuard no_grad;
      std::vector<int64_t> indices(31);
      std::iota(indices.begin(), indices.end(), 0);
      const Loss whole = CrossEntropy()(net, points(31)->batch(indices));
      EXPECT_NEAR(result.loss, whole.value.item<double>(), 1e-5);
    });
  }
}

TEST(Trainer, ValidatesAndSavesWhenAskedAndKeepsTheBest) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Recipe run{.test = points(30)};
  run.options.validate_every = 4;
  run.options.checkpoint_every = 4;
  run.options.keep_checkpoints = 2;

  train_once(solo, directory.path(), run);

  const auto kept = list_checkpoints(directory.path() / "checkpoints");
  EXPECT_GE(kept.size(), 2U);
  EXPECT_LE(kept.size(), 3U);
  EXPECT_EQ(kept.back().step, 16);
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "checkpoints" / "best"));
}

TEST(Trainer, StopsEarlyWhenTheTestLossNoLongerFalls) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path());
  Net net(0);
  torch::optim::SGD never(net.parameters(), 0.0);
  Trainer trainer(session, {.epochs = 50, .global_batch = 50});
  trainer.add(std::make_unique<EarlyStop>(2));
  // Batch norm statistics still change the test loss, so the loss is constant here.
  const TrainResult result =
      trainer.fit(net, never, points(100), points(30), [](Net& model, const Batch& batch) {
        return model.forward(batch.input).sum() * 0 + 1;
      });

  EXPECT_TRUE(result.stopped_early);
  EXPECT_EQ(result.epochs, 3);
}

TEST(Trainer, LogsTheLearningRateOfEveryStep) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path());
  Net net(0);
  torch::optim::SGD sgd(net.parameters(), 0.5);
  Trainer trainer(session, {.epochs = 1, .steps = 4, .global_batch = 10, .checkpoint_every = -1});
  trainer.set_schedule(Schedule::step(2, 0.1));
  auto log = std::make_unique<LearningRateLog>();
  const LearningRateLog& seen = *log;
  trainer.add(std::move(log));

  trainer.fit(net, sgd, points(100), nullptr, CrossEntropy());

  EXPECT_THAT(seen.rates(), ElementsAre(0.5, 0.5, 0.05, 0.05));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "checkpoints"));
}

TEST(Trainer, ReportsTheTimesOfEveryWorker) {
  const os::TemporaryDirectory directory;
  std::atomic<const comm::CallRecord*> calls_of_0 = nullptr;
  std::array<double, 2> whole = {};
  run_workers(2, [&](Communicator& comm) {
    Session session = make_session(comm, directory.path(), {});
    const comm::CallRecord& calls = CommunicatorAccess::calls(comm);
    if (comm.rank() == 0) {
      calls_of_0 = &calls;
    }
    comm.barrier();
    Net net(0);
    net.start();
    const auto optimizer = session.make_optimizer(net.parameters(), {.name = "sgd", .lr = 0.01});
    Trainer trainer(session, {.epochs = 2, .global_batch = 50});
    const auto start = std::chrono::steady_clock::now();
    // Rank 1 computes for 50 ms more after rank 0 has begun to wait for it in the next call.
    trainer.fit(net, *optimizer, points(100), nullptr, [&](Net& model, const Batch& batch) {
      if (comm.rank() == 1) {
        const uint64_t next = calls.read().number + 1;
        EXPECT_TRUE(testing::comes_true([&] {
          const comm::CallView view = calls_of_0.load()->read();
          return view.number == next && view.in_call;
        }));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      return CrossEntropy()(model, batch);
    });
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    whole.at(static_cast<size_t>(comm.rank())) = took.count();
  });

  std::array<double, 2> compute = {};
  std::array<double, 2> exchange = {};
  for (const size_t rank : {0, 1}) {
    double saving = 0;
    double other = 0;
    for (const contract::Event& event : step_events(directory.path(), static_cast<int>(rank))) {
      compute.at(rank) += contract::find_number(event, "compute_seconds").value();
      exchange.at(rank) += contract::find_number(event, "exchange_seconds").value();
      saving += contract::find_number(event, "checkpoint_seconds").value();
      other += contract::find_number(event, "data_seconds").value() +
               contract::find_number(event, "update_seconds").value();
      EXPECT_GT(contract::find_number(event, "gradient_norm").value(), 0);
      EXPECT_GT(contract::find_number(event, "memory_bytes").value(), 0);
      EXPECT_FALSE(contract::find_number(event, "device_memory_bytes"));
    }
    EXPECT_GT(saving, 0);
    // No time counts twice: what rank 0 waits is not part of its computation.
    EXPECT_LE(compute.at(rank) + exchange.at(rank) + saving + other, whole.at(rank));
  }
  // Four steps of 50 ms.
  EXPECT_GE(exchange[0], 0.2);
  EXPECT_GE(compute[1], 0.2);
}

TEST(Trainer, SavesAndSumsUpWhenItEndsWithinAnEpoch) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  Session session = make_session(solo, directory.path());
  Net net(0);
  torch::optim::SGD sgd(net.parameters(), 0.1);
  Trainer trainer(session, {.epochs = 3, .steps = 11, .global_batch = 12});

  const TrainResult result = trainer.fit(net, sgd, points(100), nullptr, CrossEntropy());

  EXPECT_EQ(result.steps, 11);
  EXPECT_EQ(result.epochs, 1);
  EXPECT_GT(result.train_loss, 0);
  EXPECT_EQ(list_checkpoints(directory.path() / "checkpoints").back().step, 11);
}

TEST(Trainer, SaysNothingOfCudaGraphsOnACpu) {
  comm::Solo solo;
  const os::TemporaryDirectory directory;
  ::testing::internal::CaptureStdout();
  train_once(solo, directory.path(), {});

  EXPECT_THAT(::testing::internal::GetCapturedStdout(), ::testing::Not(HasSubstr("CUDA")));
}

TEST(OwnLoop, StandsInTheDocumentationAsItIsBuilt) {
  const std::string page = os::read_file(LOCKSTEP_SOURCE_DIR "/docs/training.md");
  const std::string program = os::read_file(LOCKSTEP_SOURCE_DIR "/examples/own_loop/main.cpp");

  EXPECT_THAT(page, HasSubstr(program.substr(program.find("#include"))));
}

TEST(Trainer, RefusesMoreWorkersThanSamples) {
  run_workers(4, [](Communicator& comm) {
    const os::TemporaryDirectory directory;
    Session session = make_session(comm, directory.path());
    Net net(0);
    torch::optim::SGD sgd(net.parameters(), 0.5);
    Trainer trainer(session, {.global_batch = 4});
    EXPECT_THAT([&] { trainer.fit(net, sgd, points(3), nullptr, CrossEntropy()); },
                ::testing::Throws<Error>(::testing::Property(&Error::code, ExitCode::Usage)));
  });
}

}  // namespace
}  // namespace lockstep
