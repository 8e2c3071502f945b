// SPDX-License-Identifier: Apache-2.0
//
// Trains a small network on generated digits with a custom loop instead of the Trainer:
//
//   lockstep run --nproc-per-node 2 -- own_loop -s ddp
//   own_loop
//
// Expect a test accuracy of at least 85 % after 3 epochs.

#include <lockstep/lockstep.h>

int main(int argc, char** argv) {
  const lockstep::Program program{.about = "Train on generated digits with a custom loop"};
  return lockstep::run(argc, argv, program, [](lockstep::Session& session) {
    const auto digits = lockstep::generated_digits(6000, 1000, 1);
    const auto net = lockstep::digit_net("mlp");
    const auto adam = session.make_optimizer(*net, {.name = "adam", .lr = 0.002});
    const auto loss = session.in_precision(
        lockstep::loss_of<lockstep::ImageClassifier>(lockstep::CrossEntropy()));
    const auto strategy = session.make_strategy();
    strategy->adopt(*net, *adam);

    const int workers = session.world_size();
    lockstep::DistributedSampler sampler({.dataset_size = digits.train->size(),
                                          .global_batch = 120,
                                          .rank = session.rank(),
                                          .world_size = workers,
                                          .tail = lockstep::Tail::Drop});
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      sampler.set_epoch(epoch);
      lockstep::Loader loader(digits.train, sampler);
      lockstep::Meter meter;
      for (int64_t step = 0; step < sampler.steps(); ++step) {
        const lockstep::Batch batch = *loader.next();
        // With this weight, the average over the workers is the mean over the global batch.
        const double weight = static_cast<double>(batch.size() * workers) /
                              static_cast<double>(sampler.global_size(step));
        meter.add(strategy->accumulate(loss, batch, {.weight = weight}).value, batch.size());
        strategy->step();
      }
      meter.all_reduce(session.communicator());
      session.say("epoch " + std::to_string(epoch + 1) + ": " + std::to_string(meter.loss()));
    }
    strategy->leave();  // every worker has the complete model again, also after ZeRO stage 3
    lockstep::Trainer trainer(session, {});
    const auto test = trainer.evaluate(*net, digits.test, lockstep::CrossEntropy());
    session.say("test accuracy " + std::to_string(*test.accuracy));
  });
}
