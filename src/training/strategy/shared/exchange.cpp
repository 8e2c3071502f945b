// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/exchange.h"

#include <future>
#include <torch/utils.h>
#include <utility>

#include "training/comm/call_record.h"

namespace lockstep::strategy {

// Synchronous calls that go through the queue of the exchange. Collectives match by their order,
// which must be that of the program on every worker: a call from this thread must not overtake
// exchanges that were started before it and still wait for the thread of the exchange.
class Exchange::Channel final : public Communicator {
 public:
  explicit Channel(Exchange& exchange)
      : exchange_(exchange), communicator_(exchange.communicator_) {}

  int rank() const override { return communicator_.rank(); }
  int size() const override { return communicator_.size(); }
  std::string_view kind() const override { return communicator_.kind(); }
  std::optional<torch::Device> device() const override { return communicator_.device(); }
  bool accepts(torch::Device where) const override { return communicator_.accepts(where); }

 protected:
  void do_barrier() override {
    exchange_.run([this] { communicator_.barrier(); });
  }

  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    exchange_.run([&] { communicator_.all_reduce(tensor, reduction); });
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    exchange_.run([&] { communicator_.broadcast(tensor, root); });
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    exchange_.run([&] { communicator_.all_gather_into(output, input); });
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    exchange_.run([&] {
      output.copy_(communicator_.reduce_scatter(input.view({size(), -1})).view({-1}));
    });
  }

  std::unique_ptr<Communicator> do_subset(int count) override {
    std::unique_ptr<Communicator> result;
    exchange_.run([&] { result = communicator_.subset(count); });
    return result;
  }

 private:
  Exchange& exchange_;
  Communicator& communicator_;
};

Exchange::Exchange(Communicator& communicator, bool overlap)
    : communicator_(communicator),
      queue_(overlap && communicator.overlaps() ? std::make_unique<comm::TaskQueue>() : nullptr),
      channel_(std::make_unique<Channel>(*this)) {
  // A communicator that queues work on a GPU returns at once and needs no thread: its overlaps() is
  // false.
  if (overlap && communicator.device()) {
    side_.emplace(*communicator.device());
  }
}

Exchange::~Exchange() = default;

Communicator& Exchange::channel() {
  return *channel_;
}

Exchange::Future Exchange::start(Task task) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(
      c10::TensorType::get(),
      side_ ? std::vector<c10::Device>{side_->device()} : std::vector<c10::Device>());
  std::function<void()> call = [this, future, task = std::move(task)] {
    try {
      torch::NoGradGuard no_grad;
      torch::Tensor result = task(communicator_);
      if (side_ && !result.defined()) {
        // A future finds the devices to synchronize with in its value.
        result = torch::empty({1}, side_->device());
      }
      future->markCompleted(result);
    } catch (...) {
      future->setError(std::current_exception());
    }
  };
  if (held_) {
    waiting_.push_back(std::move(call));
    return future;
  }
  if (runs_concurrently()) {
    CommunicatorAccess::calls(communicator_).hand_over();
  }
  if (queue_ != nullptr) {
    queue_->push(std::move(call));
  } else {
    run_here(call);
  }
  return future;
}

void Exchange::wait(const Future& future) {
  const comm::Waiting waiting(CommunicatorAccess::calls(communicator_));
  future->wait();
}

// follow() makes the side stream wait for the gradients that the current stream is still computing.
void Exchange::run_here(const std::function<void()>& call) {
  if (!side_) {
    call();
    return;
  }
  side_->follow();
  const c10::StreamGuard guard = side_->enter();
  call();
}

// In this thread and in order. Nothing overlaps, which is why the exchanges were held.
void Exchange::release() {
  held_ = false;
  for (const std::function<void()>& call : std::exchange(waiting_, {})) {
    run(call);
  }
}

void Exchange::run(const std::function<void()>& call) {
  if (queue_ == nullptr) {
    const comm::StreamWaiting waiting(CommunicatorAccess::calls(communicator_));
    run_here(call);
    if (side_) {
      side_->let_follow();
    }
    return;
  }
  // By reference: this function returns only after the task has run. get() rethrows its exception.
  std::packaged_task<void()> task(call);
  std::future<void> done = task.get_future();
  queue_->push([&task] { task(); });
  const comm::Waiting waiting(CommunicatorAccess::calls(communicator_));
  done.get();
}

}  // namespace lockstep::strategy
