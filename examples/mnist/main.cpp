// SPDX-License-Identifier: Apache-2.0
//
// Trains a small network on the handwritten digits of MNIST, with any strategy:
//
//   lockstep run --nproc-per-node 2 -- mnist -s ddp      two workers on this machine
//   mpirun -np 2 mnist -s ddp                            two workers under MPI
//   mnist                                                one process
//
// Expect at least 98.5 % test accuracy after 2 epochs with every strategy
// (docs/results/mnist_arm64_202611.md).

#include <lockstep/lockstep.h>

int main(int argc, char** argv) {
  const lockstep::Program program{
      .about = "Train a small network on MNIST",
      .options = {
          {"--net", "cnn", "Network", lockstep::digit_net_names()},
          {"--generated-digits", "no", "Train on generated digits instead of MNIST"},
      }};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const auto digits = session.flag("--generated-digits")
                            ? lockstep::generated_digits(20000, 4000, 1)
                            : lockstep::mnist(session.data_dir());
    const auto net =
        lockstep::digit_net(session.option("--net"), {.recompute = session.recompute()});
    const auto optimizer = session.make_optimizer(
        net->parameters(),
        {.name = "sgd",
         .lr = 0.02,
         .matrices = lockstep::hidden_matrices(*net)});  // for --optimizer muon

    lockstep::Trainer trainer(session, {.epochs = 2, .global_batch = 128, .schedule = "cosine"});
    // On a GPU, the whole data set is copied to device memory, so batches need no transfer.
    trainer.fit(*net,
                *optimizer,
                lockstep::on_device(digits.train, session.device()),
                lockstep::on_device(digits.test, session.device()),
                lockstep::CrossEntropy());
  });
}
