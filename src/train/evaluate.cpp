// SPDX-License-Identifier: Apache-2.0
#include "train/evaluate.h"

#include "lockstep/error.h"
#include "lockstep/loader.h"
#include "lockstep/metrics.h"
#include "lockstep/sampler.h"

namespace lockstep::train {

namespace {

// Uses of the worker that has most. Where using the model is an exchange, all others go along.
int64_t most_uses(Communicator& communicator, int64_t mine) {
  torch::Tensor uses = torch::full({1}, mine, torch::kInt64);
  communicator.all_reduce(uses, Reduction::Max);
  return uses.item<int64_t>();
}

// The first sample that the data set does not leave out.
Batch first_sample(const Dataset& dataset) {
  Batch one;
  for (int64_t index = 0; one.size() == 0 && index < dataset.size(); ++index) {
    one = dataset.batch(std::span(&index, 1));
  }
  return one;
}

}  // namespace

Evaluation evaluate(SessionParts& session,
                    Strategy* strategy,
                    torch::nn::Module& model,
                    const DatasetPtr& test,
                    const LossFunction& loss,
                    const EvaluationFeed& feed) {
  torch::NoGradGuard no_grad;
  const bool was_training = model.is_training();
  model.eval();
  // Batch norm's averages differ from worker to worker; rank 0's are the model's.
  session.communicator->broadcast(model.buffers());
  const EvaluationSampler sampler({.dataset_size = test->size(),
                                   .batch = feed.batch,
                                   .rank = session.communicator->rank(),
                                   .world_size = session.communicator->size()});
  Loader loader(
      test, sampler, {.threads = feed.loader_threads, .pin_memory = session.device.is_cuda()});
  Meter meter;
  const auto use_model = [strategy] {
    return strategy == nullptr ? nullptr : strategy->use_model();
  };
  int64_t uses = 0;
  while (const std::optional<Batch> next = loader.next()) {
    if (next->size() == 0) {
      continue;
    }
    ++uses;
    const Batch batch = next->to(session.device, true);
    const auto use = use_model();
    const Loss result = loss(model, batch);
    meter.add(result.value, batch.size());
    if (result.scores.defined()) {
      meter.add_scores(result.scores, batch.target);
    }
  }
  if (strategy != nullptr && strategy->shares_use()) {
    const int64_t most = most_uses(*session.communicator, uses);
    const Batch any = uses < most ? first_sample(*test).to(session.device) : Batch{};
    for (; uses < most; ++uses) {
      const auto use = use_model();
      loss(model, any);
    }
  }
  meter.all_reduce(*session.communicator);
  if (meter.samples() == 0) {
    throw Error(ExitCode::Io, "cannot evaluate: not one sample can be read")
        .fact("samples", std::to_string(test->size()));
  }
  model.train(was_training);
  return {.loss = meter.loss(), .accuracy = meter.accuracy(), .samples = meter.samples()};
}

}  // namespace lockstep::train
