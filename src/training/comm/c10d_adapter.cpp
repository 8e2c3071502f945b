// SPDX-License-Identifier: Apache-2.0
#include "training/comm/c10d_adapter.h"

#include <functional>
#include <optional>

#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/comm/side_stream.h"
#include "training/comm/task_queue.h"

namespace lockstep::comm {
namespace {

// One call in progress; complete when the transport has finished it.
class CallWork final : public c10d::Work {
 public:
  CallWork(int rank,
           c10d::OpType type,
           std::vector<at::Tensor> tensors,
           const std::optional<SideStream>& side)
      : c10d::Work(rank, type),
        tensors_(std::move(tensors)),
        future_(c10::make_intrusive<c10::ivalue::Future>(
            c10::ListType::create(c10::TensorType::get()),
            side ? std::vector<c10::Device>{side->device()} : std::vector<c10::Device>())) {}

  // Also makes the current stream wait, so that GPU work which the caller queues next runs after
  // the call.
  bool wait(std::chrono::milliseconds timeout) override {
    const bool is_done = c10d::Work::wait(timeout);
    future_->wait();
    return is_done;
  }

  void run(const std::function<void()>& call) {
    try {
      call();
      finish();
      future_->markCompleted(c10::IValue(tensors_));
    } catch (...) {
      finish(std::current_exception());
      future_->setError(std::current_exception());
    }
  }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::vector<at::Tensor> result() override { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

Reduction to_reduction(const c10d::ReduceOp& op) {
  if (op == c10d::ReduceOp::SUM) {
    return Reduction::Sum;
  }
  if (op == c10d::ReduceOp::MAX) {
    return Reduction::Max;
  }
  if (op == c10d::ReduceOp::MIN) {
    return Reduction::Min;
  }
  throw Error(ExitCode::Bug, "all-reduce supports only sum, max and min");
}

class C10dAdapter final : public compat::Transport {
 public:
  C10dAdapter(Communicator& communicator, Overlap overlap)
      : compat::Transport(communicator.rank(), communicator.size()), communicator_(communicator) {
    if (const auto device = communicator.device()) {
      side_.emplace(*device);
    } else if (overlap == Overlap::OwnThread) {
      queue_ = std::make_unique<TaskQueue>();
    }
  }

  const std::string getBackendName() const override { return std::string(communicator_.kind()); }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return start(c10d::OpType::ALLREDUCE,
                 tensors,
                 [this, tensors, reduction = to_reduction(options.reduceOp)]() mutable {
                   for (at::Tensor& tensor : tensors) {
                     communicator_.all_reduce(tensor, reduction);
                   }
                 });
  }

  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override {
    return start(c10d::OpType::BROADCAST,
                 tensors,
                 [this, tensors, root = static_cast<int>(options.rootRank)]() mutable {
                   for (at::Tensor& tensor : tensors) {
                     communicator_.broadcast(tensor, root);
                   }
                 });
  }

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                           std::vector<at::Tensor>& inputs,
                                           const c10d::AllgatherOptions& /*options*/) override {
    return start(c10d::OpType::ALLGATHER, outputs.at(0), [this, outputs, inputs]() mutable {
      const at::Tensor all = communicator_.all_gather(inputs.at(0));
      for (size_t peer = 0; peer < outputs.at(0).size(); ++peer) {
        outputs[0][peer].copy_(all[static_cast<int64_t>(peer)]);
      }
    });
  }

  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& /*options*/) override {
    return start(c10d::OpType::BARRIER, {}, [this] { communicator_.barrier(); });
  }

 private:
  // Three ways to execute a call:
  // - The communicator queues work on a GPU: on a stream of its own, which first waits for the
  //   current stream. The call returns at once; Work::wait() makes the current stream wait.
  // - The communicator mostly waits for a network: on a thread of its own, in order.
  // - Otherwise here. The work is complete when it is returned.
  c10::intrusive_ptr<c10d::Work> start(c10d::OpType type,
                                       std::vector<at::Tensor> tensors,
                                       std::function<void()> call) {
    auto work =
        c10::make_intrusive<CallWork>(communicator_.rank(), type, std::move(tensors), side_);
    if (side_) {
      CommunicatorAccess::calls(communicator_).hand_over();
      side_->follow();
      const c10::StreamGuard guard = side_->enter();
      work->run(call);
    } else if (queue_ != nullptr) {
      CommunicatorAccess::calls(communicator_).hand_over();
      queue_->push([work, call = std::move(call)] { work->run(call); });
    } else {
      work->run(call);
    }
    return work;
  }

  Communicator& communicator_;
  std::optional<SideStream> side_;  // set if calls only queue work on a GPU
  std::unique_ptr<TaskQueue> queue_;
};

}  // namespace

compat::ProcessGroupPtr make_process_group(Communicator& communicator, Overlap overlap) {
  return compat::to_process_group(c10::make_intrusive<c10d::HashStore>(),
                                  communicator.rank(),
                                  communicator.size(),
                                  c10::make_intrusive<C10dAdapter>(communicator, overlap));
}

}  // namespace lockstep::comm
