// SPDX-License-Identifier: Apache-2.0
//
// A worker that makes mistakes on purpose; faults_test.cpp starts several of them.
#include <chrono>
#include <csignal>
#include <functional>
#include <lockstep/lockstep.h>
#include <thread>

namespace lockstep {
namespace {

// The last rank is late for an all-reduce, like one that hangs while it reads data.
void come_late(Session& session, double seconds) {
  Communicator& communicator = session.communicator();
  communicator.barrier();
  if (session.rank() == session.world_size() - 1) {
    communicator.set_phase("data");
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }
  const CallScope scope = communicator.enter("the exchange of gradients", "fc1.weight, fc1.bias");
  torch::Tensor sum = torch::ones({1200});
  communicator.all_reduce(sum);
}

void bring_another_shape(Session& session) {
  torch::Tensor sum = torch::ones({session.rank() == 1 ? 300000 : 1200});
  session.communicator().all_reduce(sum);
}

void make_another_call(Session& session) {
  torch::Tensor sum = torch::ones({1200});
  if (session.rank() == 1) {
    session.communicator().broadcast(sum);
  } else {
    session.communicator().all_reduce(sum);
  }
}

// Trains until `before`, which is called at the start of each step, returns false.
void train(Session& session, const std::function<bool(int step)>& before) {
  torch::nn::Sequential model(torch::nn::Linear(4, 2));
  torch::optim::SGD sgd(model->parameters(), 0.1);
  const auto strategy = session.make_strategy();
  strategy->adopt(*model, sgd);
  const LossFunction loss = loss_of<torch::nn::SequentialImpl>(
      [](auto& net, const Batch& batch) { return net.forward(batch.input).square().mean(); });
  const Batch batch{torch::ones({2, 4}), torch::zeros({2}, torch::kInt64)};
  for (int step = 0; before(step); ++step) {
    strategy->accumulate(loss, batch, {});
    strategy->step();
  }
}

// Rank 1 has fewer batches than the others, without StrategyOptions::uneven.
void end_early(Session& session) {
  train(session, [&](int step) { return step < (session.rank() == 1 ? 3 : 5); });
}

// Rank 1 does not reach its third step.
void stay_away(Session& session, double seconds) {
  train(session, [&](int step) {
    if (step == 2 && session.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    return step < 3;
  });
}

// Worker `rank`, or all if it is -1, fails between two steps while the others wait in a call.
void fail(Session& session, int rank) {
  train(session, [&](int step) {
    if (step == 2 && (rank == -1 || session.rank() == rank)) {
      throw Error(ExitCode::Io, "cannot read batch 2").fact("file", "digits");
    }
    return step < 3;
  });
}

void die(Session& session, int rank) {
  train(session, [&](int step) {
    if (step == 2 && session.rank() == rank) {
      std::raise(SIGKILL);
    }
    return step < 3;
  });
}

// The calls that all workers make before the mistake.
void make_same_calls(Session& session, int count) {
  torch::Tensor sum = torch::ones({4});
  for (int i = 0; i < count; ++i) {
    session.communicator().all_reduce(sum);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "A worker that makes mistakes",
      .options = {{"--do", "late", "late, shape, call, early, away, fail, die"},
                  {"--rank", "1", "Which worker fails; -1: all"},
                  {"--after", "0", "So many calls that all make"},
                  {"--seconds", "5", "How late"}}};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const std::string& task = session.option("--do");
    const double seconds = std::stod(session.option("--seconds"));
    lockstep::make_same_calls(session, std::stoi(session.option("--after")));
    if (task == "late") {
      lockstep::come_late(session, seconds);
    } else if (task == "shape") {
      lockstep::bring_another_shape(session);
    } else if (task == "call") {
      lockstep::make_another_call(session);
    } else if (task == "away") {
      lockstep::stay_away(session, seconds);
    } else if (task == "fail") {
      lockstep::fail(session, std::stoi(session.option("--rank")));
    } else if (task == "die") {
      lockstep::die(session, std::stoi(session.option("--rank")));
    } else {
      lockstep::end_early(session);
    }
  });
}
