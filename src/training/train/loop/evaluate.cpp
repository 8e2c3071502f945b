// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/evaluate.h"

#include <torch/utils.h>

#include "lockstep/error.h"
#include "lockstep/loader.h"
#include "lockstep/metrics.h"
#include "lockstep/sampler.h"

namespace lockstep::train {

namespace {

// The maximum over all workers.
int64_t max_steps(Communicator& communicator, int64_t mine) {
  torch::Tensor steps = torch::full({1}, mine, torch::kInt64);
  communicator.all_reduce(steps, Reduction::Max);
  return steps.item<int64_t>();
}

[[noreturn]] void throw_unreadable(const Dataset& dataset) {
  throw Error(ExitCode::Io, "cannot evaluate: no sample can be read")
      .fact("samples", std::to_string(dataset.size()));
}

// The first readable sample. A worker without a batch uses it to take part in a collective.
Batch first_sample(const Dataset& dataset) {
  for (int64_t index = 0; index < dataset.size(); ++index) {
    if (Batch one = dataset.batch(std::span(&index, 1)); one.size() > 0) {
      return one;
    }
  }
  throw_unreadable(dataset);
}

void count(Meter& meter, const Loss& result, const Batch& batch) {
  meter.add(result.value, batch.size());
  if (result.scores.defined()) {
    meter.add_scores(result.scores, batch.target, /*with_top5=*/true);
  }
}

}  // namespace

// Samples are divided among the workers without padding, so that no sample counts twice; the
// workers can have different numbers of batches. Sums and counts are added at the end, in one
// collective.
Evaluation evaluate(SessionParts& session,
                    Strategy* strategy,
                    torch::nn::Module& model,
                    const DatasetPtr& test,
                    const LossFunction& loss,
                    const EvaluationFeed& feed) {
  torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  // Batch norm statistics differ between workers; those of rank 0 are authoritative.
  session.communicator->broadcast(model.buffers());
  const EvaluationSampler sampler({.dataset_size = test->size(),
                                   .batch = feed.batch,
                                   .rank = session.communicator->rank(),
                                   .world_size = session.communicator->size()});
  Loader loader(
      test, sampler, {.threads = feed.loader_threads, .pin_memory = session.device.is_cuda()});
  Meter meter;
  // If the use of the model is a collective (ZeRO stage 3), all workers must use it equally often:
  // as often as the worker with most batches.
  const bool shares_use = strategy != nullptr && strategy->shares_use();
  const int64_t steps =
      shares_use ? max_steps(*session.communicator, sampler.steps()) : sampler.steps();
  for (int64_t step = 0; step < steps; ++step) {
    const std::optional<Batch> next = loader.next();
    const bool counts = next && next->size() > 0;
    if (!counts && !shares_use) {
      continue;
    }
    const Batch batch = (counts ? *next : first_sample(*test)).to(session.device, true);
    const auto use = strategy == nullptr ? nullptr : strategy->use_model();
    const Loss result = loss(model, batch);
    if (counts) {
      count(meter, result, batch);
    }
  }
  meter.all_reduce(*session.communicator);
  if (meter.samples() == 0) {
    throw_unreadable(*test);
  }
  model.train(was_training);
  return {.loss = meter.loss(),
          .accuracy = meter.accuracy(),
          .top5 = meter.top5(),
          .samples = meter.samples()};
}

}  // namespace lockstep::train
