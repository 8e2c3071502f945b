// SPDX-License-Identifier: Apache-2.0
#include "train/graph_step.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "base/log.h"
#include "base/text.h"
#include "optim/fused.h"

namespace lockstep::train {
namespace {

// While it lives, the optimizer's step is the GPU's half alone.
class RecordedScope {
 public:
  explicit RecordedScope(optim::FusedOptimizer& optimizer) : optimizer_(optimizer) {
    optimizer_.set_recorded(true);
  }
  ~RecordedScope() { optimizer_.set_recorded(false); }
  RecordedScope(const RecordedScope&) = delete;
  RecordedScope& operator=(const RecordedScope&) = delete;

 private:
  optim::FusedOptimizer& optimizer_;
};

class Recorded final : public GraphStep {
 public:
  Recorded(const StepParts& parts, const Batch& batch)
      : optimizer_(dynamic_cast<optim::FusedOptimizer&>(parts.optimizer)),
        batch_{batch.input.clone(), batch.target.clone()} {}

  // Throws what the capture throws; ends it in any case.
  void record(const StepParts& parts) {
    // What the steps so far have left in the cache is of no use to the graph, which has a pool of
    // its own: the memory would be taken twice.
    c10::cuda::CUDACachingAllocator::emptyCache();
    const RecordedScope scope(optimizer_);
    // Threads that load data may go on allocating meanwhile.
    graph_.capture_begin(pool_, cudaStreamCaptureModeThreadLocal);
    try {
      result_ = parts.strategy.accumulate(parts.loss, batch_, {.weight = parts.weight});
      parts.strategy.step(parts.step);
      graph_.capture_end();
    } catch (...) {
      abandon();
      throw;
    }
  }

  bool fits(const Batch& batch) const override {
    return batch.input.sizes() == batch_.input.sizes() &&
           batch.target.sizes() == batch_.target.sizes();
  }

  Loss play(const Batch& batch) override {
    batch_.input.copy_(batch.input, /*non_blocking=*/true);
    batch_.target.copy_(batch.target, /*non_blocking=*/true);
    {
      const RecordedScope scope(optimizer_);
      optimizer_.prepare();
    }
    graph_.replay();
    return result_;
  }

  torch::Tensor norm() const override { return optimizer_.recorded_norm(); }

 private:
  // libtorch throws before it has told its allocator that the capture is over, which would then
  // keep all that other streams have used.
  void abandon() {
    const auto device = c10::cuda::current_device();
    const auto try_to = [](const auto& call) {
      try {
        call();
        return true;
      } catch (const std::exception& fault) {
        log::debug("after a step that could not be recorded: {}", fault.what());
        return false;
      }
    };
    if (!try_to([&] { graph_.capture_end(); }) &&
        try_to([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool_); })) {
      try_to([&] { c10::cuda::CUDACachingAllocator::releasePool(device, pool_); });
    }
    optimizer_.drop_recorded();
    cudaGetLastError();
  }

  optim::FusedOptimizer& optimizer_;
  Batch batch_;
  Loss result_;
  at::cuda::MempoolId_t pool_ = at::cuda::graph_pool_handle();
  at::cuda::CUDAGraph graph_;
};

}  // namespace

bool has_graphs() {
  return true;
}

std::unique_ptr<GraphStep> record_step(const StepParts& parts,
                                       const Batch& batch,
                                       std::string& reason) {
  auto recorded = std::make_unique<Recorded>(parts, batch);
  try {
    recorded->record(parts);
    return recorded;
  } catch (const std::exception& fault) {
    reason = std::string(trim(split(fault.what(), '\n').front()));
  }
  // What the failed attempt has left; the step is made anew.
  for (const torch::Tensor& parameter : parts.model.parameters()) {
    parameter.mutable_grad() = torch::Tensor();
  }
  return nullptr;
}

}  // namespace lockstep::train
