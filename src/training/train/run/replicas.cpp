// SPDX-License-Identifier: Apache-2.0
//
// Threads instead of processes: each replica runs the whole body of the program on its own thread
// with its own Session. They share one process, one CUDA context and one default random generator.
//
//   replica 0   wait_for_turn | create weights | first collective (waits) .............
//   replica 1                 (blocked)        | create weights | first collective ....
//   replica 2                                                   | create weights | ...
//
// The turns make the weights of all replicas identical without a broadcast: each one seeds the
// shared generator and draws from it undisturbed.
#include "training/train/run/replicas.h"

#include <atomic>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <torch/cuda.h>

#include "training/comm/hierarchical_communicator.h"
#include "training/comm/thread_group.h"
#include "training/strategy/properties.h"

namespace lockstep::train {
namespace {

// Replicas that fail together end within milliseconds of each other.
constexpr std::chrono::seconds kPatience{3};

// Starts the replicas one after the other and records how they ended. The lock is never held while
// the code of a replica runs.
class Turns {
 public:
  explicit Turns(int count) : count_(count) {}

  void wait_for(int number) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return turn_ >= number || failure_ != nullptr; });
    if (failure_ != nullptr) {
      throw Error(ExitCode::TryAgain,
                  "cannot start this replica: another replica of this process has failed");
    }
  }

  // Replica `number` waits for the others or has ended: the next one can start.
  void pass_on(int number) {
    const std::lock_guard lock(mutex_);
    turn_ = std::max(turn_, number + 1);
    news_.notify_all();
  }

  void end(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (failure != nullptr && failure_ == nullptr) {
      failure_ = std::move(failure);
    }
    news_.notify_all();
  }

  // Returns the first failure if not all replicas have ended kPatience after it: at least one is
  // stuck in a collective. Returns null if all ended or a stop was requested.
  std::exception_ptr wait_for_stuck(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, stop, [&] { return failure_ != nullptr || ended_ == count_; });
    const bool all_ended = news_.wait_for(lock, stop, kPatience, [&] { return ended_ == count_; });
    return all_ended || stop.stop_requested() ? nullptr : failure_;
  }

  std::exception_ptr failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable_any news_;
  std::exception_ptr failure_;
  int count_;
  int turn_ = 0;
  int ended_ = 0;
};

// Forwards each call to `comm`. The first call after arm() lets the next replica start, because
// this one is about to wait for it. `armed_` is atomic because a strategy may communicate from
// another thread than the replica's.
class Gate final : public Communicator {
 public:
  Gate(Communicator& comm, std::function<void()> at_first_call)
      : comm_(comm), at_first_call_(std::move(at_first_call)) {}

  void arm() { armed_ = true; }

  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string_view kind() const override { return comm_.kind(); }
  bool overlaps() const override { return comm_.overlaps(); }

 protected:
  void do_barrier() override {
    open();
    comm_.barrier();
  }
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    open();
    comm_.all_reduce(tensor, reduction);
  }
  void do_broadcast(torch::Tensor& tensor, int root) override {
    open();
    comm_.broadcast(tensor, root);
  }
  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    open();
    output.copy_(comm_.all_gather(input).view({-1}));
  }
  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    open();
    output.copy_(comm_.reduce_scatter(input.view({size(), -1})).view({-1}));
  }
  std::unique_ptr<Communicator> do_subset(int count) override {
    open();
    return comm_.subset(count);
  }

 private:
  void open() {
    if (armed_.exchange(false)) {
      at_first_call_();
    }
  }

  Communicator& comm_;
  std::function<void()> at_first_call_;
  std::atomic<bool> armed_ = false;
};

// rank = rank of the process * count + number; likewise for local ranks.
cluster::Placement placement_of(cluster::Placement placement, int number, int count) {
  contract::WorkerSpec& spec = placement.worker;
  spec.rank = spec.rank * count + number;
  spec.world_size *= count;
  spec.local_rank = spec.local_rank * count + number;
  spec.local_world_size *= count;
  return placement;
}

// Only replica 0 talks to other processes; the hierarchical communicator combines both levels.
void run_one(Communicator& inner,
             const cluster::Placement& process,
             Communicator* outer,
             Turns& turns,
             const std::function<void(const Replica&)>& body) {
  const int number = inner.rank();
  const cluster::Placement placement = placement_of(process, number, inner.size());
  const bool is_alone = outer == nullptr || process.worker.world_size == 1;
  const std::unique_ptr<Communicator> both = comm::make_hierarchical_communicator(
      inner,
      number == 0 && !is_alone ? outer : nullptr,
      placement.worker.rank,
      placement.worker.world_size,
      is_alone ? "threads" : fmt::format("threads over {}", outer->kind()));
  Gate gate(*both, [&turns, number] { turns.pass_on(number); });
  body({.placement = placement, .communicator = gate, .wait_for_turn = [&] {
          turns.wait_for(number);
          gate.arm();
        }});
}

}  // namespace

int choose_replicas(const Flags& flags, const contract::WorkerSpec& spec) {
  if (flags.replicas > 0) {
    return flags.replicas;
  }
  const bool wants_all =
      strategy::has(flags.strategy, &strategy::Properties::has_replicas_in_process) &&
      !flags.verify_strategies && flags.device != "cpu" && spec.local_world_size == 1;
  return wants_all && torch::cuda::is_available()
             ? std::max(1, static_cast<int>(torch::cuda::device_count()))
             : 1;
}

// `watch` ends first: its jthread requests a stop and joins before `turns` is destroyed.
void run_replicas(int count,
                  const cluster::Placement& placement,
                  Communicator* outer,
                  const std::function<void(const Replica&)>& body,
                  const std::function<void(std::exception_ptr)>& leave) {
  Turns turns(count);
  std::jthread watch([&turns, &leave](const std::stop_token& stop) {
    if (const std::exception_ptr failure = turns.wait_for_stuck(stop)) {
      leave(failure);
    }
  });
  try {
    comm::run_thread_group(count, [&](Communicator& inner) {
      try {
        run_one(inner, placement, outer, turns, body);
        turns.pass_on(inner.rank());
        turns.end(nullptr);
      } catch (...) {
        turns.end(std::current_exception());
        throw;
      }
    });
  } catch (...) {
    // The exception of run_thread_group() may be a consequence of the first failure.
    std::rethrow_exception(turns.failure());
  }
}

}  // namespace lockstep::train
