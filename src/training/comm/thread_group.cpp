// SPDX-License-Identifier: Apache-2.0
#include "training/comm/thread_group.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lockstep/error.h"
#include "training/comm/call_record.h"
#include "training/comm/call_signature.h"
#include "training/comm/reduce.h"

namespace lockstep::comm {
namespace {

using Kind = CallSignature::Kind;

// State that the threads share: a barrier that a failed thread can break, and the tensors that each
// rank offers to the others.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size)
      : offers_(static_cast<size_t>(size)), calls_(static_cast<size_t>(size)), size_(size) {}

  // Offers the tensor of this rank and waits until all ranks have done so for the same call.
  void publish(int rank, const CallSignature& call, const torch::Tensor& tensor = {}) {
    std::unique_lock lock(mutex_);
    offers_[static_cast<size_t>(rank)] = tensor;
    calls_[static_cast<size_t>(rank)] = call;
    arrive(lock);
  }

  // No lock: offers change only in publish(), and no rank gets there before all ranks have arrived
  // at finish().
  const torch::Tensor& offer(int rank) const { return offers_[static_cast<size_t>(rank)]; }

  // Waits until all ranks have finished reading the offered tensors.
  void finish() {
    std::unique_lock lock(mutex_);
    arrive(lock);
  }

  // Locks a parent before its children, and no method locks in the other direction.
  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (first_failure_ == nullptr) {
      first_failure_ = failure;
    }
    all_arrived_.notify_all();
    for (const std::weak_ptr<ThreadGroup>& child : children_) {
      if (const auto alive = child.lock()) {
        alive->fail(failure);
      }
    }
  }

  // This rank makes no further calls. Ranks that still wait for it have made different calls.
  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    calls_[static_cast<size_t>(rank)] = CallSignature{.kind = Kind::End};
    has_left_ = true;
    all_arrived_.notify_all();
  }

  // The shared state of the first `count` ranks. All ranks of this one call it.
  // The barrier of publish() orders the write of newest_child_ by rank 0 before the reads of the
  // others. finish() keeps rank 0 from replacing it in its next split() before all have read it.
  std::shared_ptr<ThreadGroup> split(int rank, int count) {
    if (rank == 0) {
      const std::lock_guard lock(mutex_);
      newest_child_ = std::make_shared<ThreadGroup>(count);
      children_.emplace_back(newest_child_);
    }
    publish(rank, {.kind = Kind::Subset, .count = count});
    std::shared_ptr<ThreadGroup> child = rank < count ? newest_child_ : nullptr;
    finish();
    return child;
  }

  void rethrow_failure() const {
    if (first_failure_ != nullptr) {
      std::rethrow_exception(first_failure_);
    }
  }

  int size() const { return size_; }

 private:
  // A barrier that can be reused and broken. round_ distinguishes this use from the next one: a
  // thread that wakes late must not take the arrivals of the next round for its own. The last
  // thread compares the calls of all, so that each of them throws the same error.
  void arrive(std::unique_lock<std::mutex>& lock) {
    const uint64_t round = round_;
    if (++arrived_ == size_) {
      if (std::adjacent_find(calls_.begin(), calls_.end(), std::not_equal_to<>()) != calls_.end()) {
        mismatch_ = different_calls(calls_);
      }
      calls_.assign(calls_.size(), std::nullopt);
      arrived_ = 0;
      ++round_;
      all_arrived_.notify_all();
    }
    all_arrived_.wait(lock,
                      [&] { return round_ != round || first_failure_ != nullptr || has_left_; });
    if (round_ == round && has_left_ && !mismatch_) {
      mismatch_ = different_calls(calls_);
    }
    if (mismatch_) {
      throw Error(*mismatch_);
    }
    if (first_failure_ != nullptr) {
      throw Error(ExitCode::TryAgain, "another worker of this process has failed");
    }
  }

  std::mutex mutex_;
  std::condition_variable all_arrived_;
  std::vector<torch::Tensor> offers_;
  std::vector<std::optional<CallSignature>> calls_;  // calls of this round, indexed by rank
  std::vector<std::weak_ptr<ThreadGroup>> children_;
  std::shared_ptr<ThreadGroup> newest_child_;
  std::exception_ptr first_failure_;
  uint64_t round_ = 0;
  int arrived_ = 0;
  bool has_left_ = false;          // a rank has ended normally
  std::optional<Error> mismatch_;  // the ranks made different calls
  int size_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<ThreadGroup> group, int rank)
      : owned_(std::move(group)), group_(*owned_), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  std::string_view kind() const override { return "threads"; }

 protected:
  // Without finish(): there is nothing to read, so one barrier is enough.
  void do_barrier() override {
    group_.publish(rank_, barrier_signature(CommunicatorAccess::calls(*this)));
  }

  // Each rank reduces one part in the order of ranks and writes it into the tensors of all ranks.
  // Parts do not overlap, so no lock is needed between publish() and finish().
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    group_.publish(rank_,
                   {.kind = Kind::AllReduce,
                    .type = tensor.scalar_type(),
                    .reduction = reduction,
                    .count = tensor.numel()},
                   tensor);
    const int64_t begin = tensor.numel() * rank_ / size();
    const int64_t end = tensor.numel() * (rank_ + 1) / size();
    const auto width = static_cast<int64_t>(tensor.element_size());
    std::byte* first = start_of(0) + begin * width;
    reduce_all(first,
               sources(begin * width),
               static_cast<size_t>(end - begin),
               tensor.scalar_type(),
               reduction);
    for (int peer = 1; peer < size(); ++peer) {
      std::memcpy(
          start_of(peer) + begin * width, first, static_cast<size_t>((end - begin) * width));
    }
    group_.finish();
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    group_.publish(rank_,
                   {.kind = Kind::Broadcast,
                    .type = tensor.scalar_type(),
                    .root = root,
                    .count = tensor.numel()},
                   tensor);
    if (rank_ != root) {
      std::memcpy(tensor.data_ptr(), start_of(root), tensor.nbytes());
    }
    group_.finish();
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    group_.publish(rank_,
                   {.kind = Kind::AllGather, .type = input.scalar_type(), .count = input.numel()},
                   input);
    for (int peer = 0; peer < size(); ++peer) {
      output.narrow(0, peer * input.numel(), input.numel()).copy_(group_.offer(peer));
    }
    group_.finish();
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    group_.publish(
        rank_,
        {.kind = Kind::ReduceScatter, .type = input.scalar_type(), .count = input.numel()},
        input);
    reduce_all(output.data_ptr(),
               sources(rank_ * static_cast<int64_t>(output.nbytes())),
               static_cast<size_t>(output.numel()),
               output.scalar_type(),
               Reduction::Sum);
    group_.finish();
  }

  std::unique_ptr<Communicator> do_subset(int count) override {
    std::shared_ptr<ThreadGroup> child = group_.split(rank_, count);
    return child == nullptr ? nullptr : std::make_unique<ThreadRank>(std::move(child), rank_);
  }

 private:
  std::byte* start_of(int peer) const {
    return static_cast<std::byte*>(group_.offer(peer).data_ptr());
  }

  std::vector<const void*> sources(int64_t offset) const {
    std::vector<const void*> starts;
    for (int peer = 0; peer < size(); ++peer) {
      starts.push_back(start_of(peer) + offset);
    }
    return starts;
  }

  std::shared_ptr<ThreadGroup> owned_;
  ThreadGroup& group_;
  int rank_;
};

}  // namespace

void run_thread_group(int size, const std::function<void(Communicator&)>& body) {
  const auto group = std::make_shared<ThreadGroup>(size);
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([group, &body, rank] {
        try {
          ThreadRank comm(group, rank);
          body(comm);
          group->leave(rank);
        } catch (...) {
          group->fail(std::current_exception());
        }
      });
    }
  }
  // The threads are joined above, so the failure can be read without the mutex.
  group->rethrow_failure();
}

}  // namespace lockstep::comm
