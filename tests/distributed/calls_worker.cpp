// SPDX-License-Identifier: Apache-2.0
//
// Workers that do not make the same calls; transports_test.cpp starts them.
#include <functional>
#include <lockstep/lockstep.h>
#include <map>

namespace lockstep {
namespace {

void all_reduce(Session& session, int64_t count) {
  torch::Tensor sum = torch::ones({count});
  session.communicator().all_reduce(sum);
}

void make_different_calls(Session& session) {
  all_reduce(session, 10);
  if (session.rank() == 1) {
    session.communicator().barrier();
  } else {
    all_reduce(session, 1200);
  }
}

void pass_different_sizes(Session& session) {
  all_reduce(session, session.rank() == 1 ? 100000 : 50000);
}

// The others receive a broadcast from rank 0, which does not wait for any worker.
void miss_a_broadcast(Session& session) {
  if (session.rank() != 1) {
    torch::Tensor sent = torch::ones({10});
    session.communicator().broadcast(sent, 0);
  }
  all_reduce(session, 10);
}

// As with uneven inputs.
void run_out_of_data(Session& session) {
  for (int step = 0; step < (session.rank() == 1 ? 3 : 4); ++step) {
    all_reduce(session, 1000);
  }
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  const std::map<std::string, std::function<void(lockstep::Session&)>> tasks = {
      {"different-calls", lockstep::make_different_calls},
      {"different-sizes", lockstep::pass_different_sizes},
      {"missed-broadcast", lockstep::miss_a_broadcast},
      {"out-of-data", lockstep::run_out_of_data},
  };
  const lockstep::Program program{.about = "Workers that do not make the same calls",
                                  .options = {{"--do", "different-calls", "which fault"}}};
  return lockstep::run(argc, argv, program, [&](lockstep::Session& session) {
    tasks.at(session.option("--do"))(session);
  });
}
