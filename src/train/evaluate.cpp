// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include "lockstep/loader.h"
#include "lockstep/metrics.h"
#include "lockstep/sampler.h"

namespace lockstep::train {

Evaluation evaluate(SessionParts& session,
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
  while (const std::optional<Batch> next = loader.next()) {
    const Batch batch = next->to(session.device, true);
    const Loss result = loss(model, batch);
    meter.add(result.value, batch.size());
    if (result.scores.defined()) {
      meter.add_scores(result.scores, batch.target);
    }
  }
  meter.all_reduce(*session.communicator);
  model.train(was_training);
  return {.loss = meter.loss(), .accuracy = meter.accuracy(), .samples = meter.samples()};
}

}  // namespace lockstep::train
