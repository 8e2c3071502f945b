// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include "lockstep/loader.h"
#include "lockstep/metrics.h"
#include "lockstep/sampler.h"

namespace lockstep::train {

namespace {

// Batches of the worker that has most. Where using the model is an exchange, all others go along.
int64_t most_batches(Communicator& communicator, const EvaluationSampler& sampler) {
  torch::Tensor steps = torch::full({1}, sampler.steps(), torch::kInt64);
  communicator.all_reduce(steps, Reduction::Max);
  return steps.item<int64_t>();
}

}  // namespace

Evaluation evaluate(SessionParts& session,
                    Strategy* strategy,
                    torch::nn::Module& model,
                    const DatasetPtr& test,
                    const LossFunction& loss,
                    int64_t batch_size) {
  torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  // Batch norm's averages differ from worker to worker; rank 0's are the model's.
  session.communicator->broadcast(model.buffers());
  const EvaluationSampler sampler({.dataset_size = test->size(),
                                   .batch = batch_size,
                                   .rank = session.communicator->rank(),
                                   .world_size = session.communicator->size()});
  Loader loader(test, sampler, {.pin_memory = session.device.is_cuda()});
  Meter meter;
  const auto use_model = [strategy] {
    return strategy == nullptr ? nullptr : strategy->use_model();
  };
  while (const std::optional<Batch> next = loader.next()) {
    const Batch batch = next->to(session.device, true);
    const auto use = use_model();
    const Loss result = loss(model, batch);
    meter.add(result.value, batch.size());
    if (result.scores.defined()) {
      meter.add_scores(result.scores, batch.target);
    }
  }
  if (strategy != nullptr && strategy->shares_use()) {
    const int64_t most = most_batches(*session.communicator, sampler);
    for (int64_t step = sampler.steps(); step < most; ++step) {
      const auto use = use_model();
      loss(model, test->batch(std::vector<int64_t>{0}).to(session.device));
    }
  }
  meter.all_reduce(*session.communicator);
  model.train(was_training);
  return {.loss = meter.loss(), .accuracy = meter.accuracy(), .samples = meter.samples()};
}

}  // namespace lockstep::train
