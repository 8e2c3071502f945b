// SPDX-License-Identifier: Apache-2.0
#include "comm/thread_gang.h"

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "comm/reduce.h"
#include "lockstep/error.h"

namespace lockstep::comm {
namespace {

// What the threads share: a meeting point that a failed thread can break, and the tensors that each
// has laid out for the others.
class Meeting {
 public:
  explicit Meeting(int size) : offers_(static_cast<size_t>(size)), size_(size) {}

  // Lays out this rank's tensor and waits until all have.
  void lay_out(int rank, const torch::Tensor& tensor) {
    {
      const std::lock_guard lock(mutex_);
      offers_[static_cast<size_t>(rank)] = tensor;
    }
    wait();
  }

  const torch::Tensor& offer(int rank) const { return offers_[static_cast<size_t>(rank)]; }

  void wait() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++arrived_ == size_) {
      arrived_ = 0;
      ++round_;
      all_here_.notify_all();
    }
    all_here_.wait(lock, [&] { return round_ != round || first_failure_ != nullptr; });
    if (first_failure_ != nullptr) {
      throw Error(ExitCode::TryAgain, "cannot go on: another worker of this gang has failed");
    }
  }

  void fail(std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);
    if (first_failure_ == nullptr) {
      first_failure_ = std::move(failure);
    }
    all_here_.notify_all();
  }

  void rethrow_failure() const {
    if (first_failure_ != nullptr) {
      std::rethrow_exception(first_failure_);
    }
  }

  int size() const { return size_; }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  std::vector<torch::Tensor> offers_;
  std::exception_ptr first_failure_;
  uint64_t round_ = 0;
  int arrived_ = 0;
  int size_;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return meeting_.size(); }
  std::string_view kind() const override { return "threads"; }
  void barrier() override { meeting_.wait(); }

 protected:
  void do_all_reduce(torch::Tensor& tensor, Reduction reduction) override {
    meeting_.lay_out(rank_, tensor);
    torch::Tensor sum = meeting_.offer(0).clone();
    for (int peer = 1; peer < size(); ++peer) {
      reduce_into(sum.data_ptr(),
                  meeting_.offer(peer).data_ptr(),
                  static_cast<size_t>(sum.numel()),
                  sum.scalar_type(),
                  reduction);
    }
    meeting_.wait();
    tensor.copy_(sum);
  }

  void do_broadcast(torch::Tensor& tensor, int root) override {
    meeting_.lay_out(rank_, tensor);
    if (rank_ != root) {
      tensor.copy_(meeting_.offer(root));
    }
    meeting_.wait();
  }

  void do_all_gather(torch::Tensor& output, const torch::Tensor& input) override {
    meeting_.lay_out(rank_, input);
    for (int peer = 0; peer < size(); ++peer) {
      output.narrow(0, peer * input.numel(), input.numel()).copy_(meeting_.offer(peer));
    }
    meeting_.wait();
  }

  void do_reduce_scatter(torch::Tensor& output, const torch::Tensor& input) override {
    meeting_.lay_out(rank_, input);
    const int64_t count = output.numel();
    output.copy_(meeting_.offer(0).narrow(0, rank_ * count, count));
    for (int peer = 1; peer < size(); ++peer) {
      output.add_(meeting_.offer(peer).narrow(0, rank_ * count, count));
    }
    meeting_.wait();
  }

 private:
  Meeting& meeting_;
  int rank_;
};

}  // namespace

void run_thread_gang(int size, const std::function<void(Communicator&)>& body) {
  Meeting meeting(size);
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&meeting, &body, rank] {
        try {
          ThreadRank comm(meeting, rank);
          body(comm);
        } catch (...) {
          meeting.fail(std::current_exception());
        }
      });
    }
  }
  meeting.rethrow_failure();
}

}  // namespace lockstep::comm
