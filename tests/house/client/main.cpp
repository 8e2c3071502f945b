// SPDX-License-Identifier: Apache-2.0
//
// A program that uses an installed lockstep: one worker and one collective.
#include <iostream>
#include <lockstep/lockstep.h>

int main(int argc, char** argv) {
  const lockstep::Program program{.about = "Adds up one number per worker"};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    torch::Tensor sum = torch::ones({1});
    session.communicator().all_reduce(sum);
    std::cout << "workers: " << session.world_size() << ", sum: " << sum.item<float>() << '\n';
  });
}
