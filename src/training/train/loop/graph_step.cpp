// SPDX-License-Identifier: Apache-2.0
#include "training/train/loop/graph_step.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "training/optim/fused.h"

namespace lockstep::train {
namespace {

// While this scope exists, the optimizer is in recorded mode: its step consists of kernel launches
// only. The work of the host (step count, learning rates) is in FusedOptimizer::prepare(), which
// play() calls before each replay.
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

  // Captures the step. The order matters:
  //   1. Empty the cache, see below.
  //   2. Switch the optimizer to recorded mode, because its host work must not be captured.
  //   3. Capture forward, backward and update. The kernels are recorded, not executed, so weights
  //      and optimizer state keep their values. Memory comes from the private pool of the graph.
  //   4. End the capture, on failure as well: a stream in capture mode rejects all further work.
  void record(const StepParts& parts) {
    // The graph allocates from a private pool and cannot use the blocks that previous steps left in
    // the cache. Without this call, the activations would occupy memory twice.
    c10::cuda::CUDACachingAllocator::emptyCache();
    const RecordedScope scope(optimizer_);
    // Thread-local: other threads, such as those of the loader, can call cudaMalloc and
    // cudaHostAlloc during the capture. In global mode such a call would invalidate it.
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

  // All operations are queued on the current stream and are therefore ordered: the graph reads the
  // batch and the values of prepare() only after they have been copied.
  Loss play(const Batch& batch) override {
    LOCKSTEP_CHECK(fits(batch));  // copy_() would broadcast a batch of one sample
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
  // Ends a failed capture. If capture_end() itself throws, libtorch has not yet informed its
  // caching allocator of the end of the capture. The allocator would then continue to serve the
  // private pool and would not free blocks that other streams have used, so the calls that
  // capture_end() has skipped are made here.
  void abandon() {
    const auto device = c10::cuda::current_device();
    const auto try_to = [](const auto& call) {
      try {
        call();
        return true;
      } catch (const std::exception& fault) {
        log::debug("cleanup after a failed CUDA graph capture: {}", fault.what());
        return false;
      }
    };
    if (!try_to([&] { graph_.capture_end(); }) &&
        try_to([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool_); })) {
      try_to([&] { c10::cuda::CUDACachingAllocator::releasePool(device, pool_); });
    }
    optimizer_.drop_recorded();
    cudaGetLastError();  // clears the error, which the next CUDA call would otherwise report
  }

  optim::FusedOptimizer& optimizer_;
  Batch batch_;  // fixed input of the graph
  Loss result_;  // fixed output of the graph, in its pool
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
  // The capture may have created gradients. They were never computed and are in the pool that
  // abandon() released.
  for (const torch::Tensor& parameter : parts.model.parameters()) {
    parameter.mutable_grad() = torch::Tensor();
  }
  return nullptr;
}

}  // namespace lockstep::train
