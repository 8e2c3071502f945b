// SPDX-License-Identifier: Apache-2.0
//
// A worker for tests of real processes; processes_test.cpp starts it as a user would start a
// training program.
#include <csignal>
#include <fmt/format.h>
#include <iostream>
#include <lockstep/lockstep.h>

#include "gang/drift.h"
#include "support/collectives.h"

namespace lockstep {
namespace {

void check_collectives(Session& session) {
  const std::string faults = faults_of_collectives(session.communicator());
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

// The last rank dies without a word while the others wait for it.
void lose_a_peer(Session& session) {
  session.communicator().barrier();
  if (session.rank() == session.world_size() - 1) {
    std::raise(SIGKILL);
  }
  torch::Tensor sum = torch::ones({1000});
  session.communicator().all_reduce(sum);
  session.communicator().barrier();
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
      .options = {{"--do", "collectives", "collectives, drift, lose-a-peer, another-model"}}};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const std::string& task = session.option("--do");
    if (task == "collectives") {
      lockstep::check_collectives(session);
    } else if (task == "drift") {
      lockstep::print_drift(session);
    } else if (task == "lose-a-peer") {
      lockstep::lose_a_peer(session);
    } else {
      lockstep::hold_another_model(session);
    }
  });
}
