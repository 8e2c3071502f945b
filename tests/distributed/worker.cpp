// SPDX-License-Identifier: Apache-2.0
//
// A worker for tests of real processes; processes_test.cpp starts it like a training program.
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <iostream>
#include <lockstep/lockstep.h>
#include <thread>

#include "distributed/drift.h"
#include "support/collectives.h"

namespace lockstep {
namespace {

void check_collectives(Session& session) {
  const std::string faults = faults_of_collectives(session.communicator(), session.device());
  if (!faults.empty()) {
    throw Error(ExitCode::Bug, "collectives broke a promise").fact("faults", faults);
  }
  std::cout << fmt::format("collectives over {} are right\n", session.communicator().kind())
            << std::flush;
}

void print_drift(Session& session) {
  for (const auto type : {torch::kFloat64, torch::kFloat32}) {
    for (const int accumulate : {1, 2}) {
      const Drift drift =
          measure_drift(session.communicator(), {.type = type, .accumulate = accumulate});
      if (session.rank() == 0) {
        std::cout << fmt::format(
                         "drift {} workers {} transport {} accumulate {} relative {:.2e} {}\n",
                         session.world_size(),
                         toString(type),
                         session.communicator().kind(),
                         accumulate,
                         drift.relative,
                         drift.identical ? "identical" : "DIFFERENT")
                  << std::flush;
      }
    }
  }
}

// The last rank dies without a message while the others wait for it.
void lose_a_peer(Session& session) {
  session.communicator().barrier();
  if (session.rank() == session.world_size() - 1) {
    std::raise(SIGKILL);
  }
  torch::Tensor sum = torch::ones({1000}, session.device());
  session.communicator().all_reduce(sum);
  if (session.device().is_cuda()) {
    // The host waits for the GPU, which waits for the peer.
    session.say(fmt::format("the sum is {}", sum[0].item<float>()));
    session.communicator().all_reduce(sum);
  }
  session.communicator().barrier();
}

// Every rank has two steps more than the previous one, rank 0 none. The options select the
// exchange.
void run_out_of_batches(Session& session) {
  torch::manual_seed(session.rank());
  torch::nn::Sequential model(
      torch::nn::Linear(30, 40), torch::nn::Tanh(), torch::nn::Linear(40, 5));
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  const auto strategy = session.make_strategy({.first_bucket_bytes = 256, .uneven = true});
  strategy->adopt(*model, sgd);
  for (int step = 0; step < 2 * session.rank(); ++step) {
    strategy->accumulate(loss_of<torch::nn::SequentialImpl>([](auto& any, const Batch& batch) {
                           return Loss(any.forward(batch.input).pow(2).mean());
                         }),
                         {torch::randn({8, 30}), torch::zeros({8})},
                         {});
    strategy->step();
  }
  const int last = strategy->join();
  bool identical = true;
  for (const torch::Tensor& parameter : model->parameters()) {
    const torch::Tensor everyone = session.communicator().all_gather(parameter.detach());
    identical = identical && everyone.eq(everyone[0]).all().item<bool>();
  }
  session.say(fmt::format(
      "rank {} joined last, parameters are {}", last, identical ? "identical" : "DIFFERENT"));
}

// The last rank needs 30 ms more than the others for each of 70 steps.
void train_with_a_slow_one(Session& session) {
  const auto net = digit_net("mlp");
  const auto optimizer = session.make_optimizer(net->parameters(), {.name = "sgd", .lr = 0.01});
  const bool is_slow = session.rank() == session.world_size() - 1;
  Trainer trainer(session, {.epochs = 1, .global_batch = 64, .checkpoint_every = -1});
  trainer.fit(*net,
              *optimizer,
              generated_digits(70 * 64, 64, 1).train,
              nullptr,
              [is_slow](auto& model, const Batch& batch) {
                if (is_slow) {
                  std::this_thread::sleep_for(std::chrono::milliseconds(30));
                }
                return CrossEntropy()(model, batch);
              });
}

void hold_another_model(Session& session) {
  torch::nn::Sequential model(torch::nn::Linear(4, session.rank() == 1 ? 5 : 4));
  torch::optim::SGD sgd(model->parameters(), 0.1);
  session.make_strategy()->adopt(*model, sgd);
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "A worker for tests",
      .options = {{"--do",
                   "collectives",
                   "collectives, drift, run-out-of-batches, lose-a-peer, one-is-slow, "
                   "another-model"}}};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const std::string& task = session.option("--do");
    if (task == "collectives") {
      lockstep::check_collectives(session);
    } else if (task == "drift") {
      lockstep::print_drift(session);
    } else if (task == "run-out-of-batches") {
      lockstep::run_out_of_batches(session);
    } else if (task == "lose-a-peer") {
      lockstep::lose_a_peer(session);
    } else if (task == "one-is-slow") {
      lockstep::train_with_a_slow_one(session);
    } else {
      lockstep::hold_another_model(session);
    }
  });
}
