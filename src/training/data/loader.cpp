// SPDX-License-Identifier: Apache-2.0
#include "lockstep/loader.h"

#include <algorithm>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/thread_name.h>
#include <condition_variable>
#include <exception>
#include <fmt/format.h>
#include <mutex>
#include <stop_token>
#include <string_view>
#include <thread>
#include <torch/cuda.h>
#include <utility>

#include "common/os/processors.h"
#include "lockstep/error.h"
#include "training/data/pinned_source.h"

namespace lockstep {
namespace {

constexpr int kByCores = -1;

void require(bool is_true, std::string_view what, int64_t found, std::string_view expected) {
  if (!is_true) {
    throw Error(ExitCode::Usage, fmt::format("cannot load batches: {} is {}", what, found))
        .fact("expected", expected);
  }
}

int threads_of(const LoaderOptions& options) {
  // One core remains for the training thread.
  return options.threads == kByCores ? std::max(1, os::usable_processors() - 1) : options.threads;
}

// One batch per thread in progress and two ready. Not more, because batches of images are large.
int batches_ahead(const LoaderOptions& options) {
  constexpr int kMinimum = 4;
  return options.prefetch > 0 ? options.prefetch : std::max(kMinimum, threads_of(options) + 2);
}

// The data set for this epoch, or the data set itself if it does not depend on the epoch.
DatasetPtr in_epoch(DatasetPtr dataset, int64_t epoch) {
  DatasetPtr then = dataset->in_epoch(epoch);
  return then == nullptr ? dataset : then;
}

void check(const LoaderOptions& options, int64_t steps) {
  require(steps >= 0, "the number of steps", steps, "0 or more");
  require(options.first_step >= 0 && options.first_step <= steps,
          "the first step",
          options.first_step,
          fmt::format("0 to {}, the number of steps", steps));
  require(options.threads >= kByCores,
          "the number of threads",
          options.threads,
          "0 or more; -1: number of cores");
  require(options.prefetch >= 0,
          "the number of prefetched batches",
          options.prefetch,
          "1 or more; 0: from the number of threads");
  if (options.pin_memory && !torch::cuda::is_available()) {
    throw Error(ExitCode::Usage, "cannot pin memory: libtorch finds no GPU")
        .hint("LoaderOptions{.pin_memory = false}");
  }
}

// The current GPU of this thread, if memory should be pinned.
std::optional<c10::Device> find_pinning_device(bool pin_memory) {
  if (!pin_memory) {
    return std::nullopt;
  }
  return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getDevice();
}

// A batch that a data set has decoded on a GPU was allocated on another stream. Without this, the
// allocator could reuse its memory while the current stream still reads it.
void record_use(const Batch& batch) {
  for (const torch::Tensor& tensor : {batch.input, batch.target}) {
    if (tensor.defined() && tensor.is_cuda()) {
      tensor.record_stream(
          c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(tensor.device()));
    }
  }
}

}  // namespace

// A ring buffer with one place per prefetched batch; step s is in place s % prefetch.
//
// Invariant: steps [taken_, claimed_) are in the ring, in progress or ready, and claimed_ - taken_
// is at most the size of the ring. A loader thread claims the next step if the ring has room;
// next() takes the steps in order. Both sides wait on condition variables. A wake-up costs more
// than a small batch and is therefore kept rare: loader threads are woken when half of the ring is
// free, and the consumer only if it waits.
class Loader::Pipeline {
 public:
  Pipeline(DatasetPtr dataset, int64_t steps, IndexSource indices, const LoaderOptions& options)
      : dataset_(std::move(dataset)),
        pinned_source_(dynamic_cast<const data::PinnedSource*>(dataset_.get())),
        indices_(std::move(indices)),
        steps_(steps),
        pins_for_(find_pinning_device(options.pin_memory && dataset_->device().is_cpu())),
        claimed_(options.first_step),
        taken_(options.first_step),
        ring_(static_cast<size_t>(batches_ahead(options))) {
    // Batches of a data set on a GPU are created by the consumer, in the order of its CUDA stream.
    const int threads = dataset_->device().is_cpu() ? threads_of(options) : 0;
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i](const std::stop_token& stop) {
        c10::setThreadName(fmt::format("loader-{}", i));
        make_batches(stop);
      });
    }
  }

  ~Pipeline() {
    for (std::jthread& thread : threads_) {
      thread.request_stop();
    }
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  std::optional<Batch> next() {
    if (taken_ == steps_) {
      return std::nullopt;
    }
    std::unique_lock lock(mutex_);
    Slot& mine = slot(taken_);
    if (!mine.is_ready) {
      wait_for(mine, lock);
    }
    // A failed step stays in the ring, so that the next call throws again.
    if (mine.failure) {
      std::rethrow_exception(mine.failure);
    }
    mine.is_ready = false;
    Batch batch = std::move(mine.batch);
    ++taken_;
    // The batch leaves the ring before its slot counts as free; a loader thread can claim the
    // slot only after `taken_` has grown, under the same lock.
    const int64_t free_slots = capacity() - (claimed_ - taken_);
    const bool wakes_makers = claimed_ < steps_ && 2 * free_slots >= capacity();
    lock.unlock();
    if (wakes_makers) {
      room_.notify_all();
    }
    record_use(batch);
    return batch;
  }

 private:
  struct Slot {
    bool is_ready = false;
    Batch batch;
    std::exception_ptr failure;
  };

  int64_t capacity() const { return static_cast<int64_t>(ring_.size()); }
  Slot& slot(int64_t step) { return ring_[static_cast<size_t>(step % capacity())]; }
  bool has_room() const { return claimed_ < std::min(steps_, taken_ + capacity()); }

  void wait_for(const Slot& wanted, std::unique_lock<std::mutex>& lock) {
    if (threads_.empty()) {
      slot(taken_) = make(claimed_++);
      return;
    }
    room_.notify_all();
    is_waited_for_ = true;
    ready_.wait(lock, [&] { return wanted.is_ready; });
    is_waited_for_ = false;
  }

  void make_batches(const std::stop_token& stop) {
    c10::OptionalDeviceGuard pins_here;
    if (pins_for_) {
      pins_here.reset_device(*pins_for_);
    }
    std::unique_lock lock(mutex_);
    while (room_.wait(lock, stop, [this] { return has_room(); }) && !stop.stop_requested()) {
      // Batches are made without the lock; only the place in the ring needs it. Several threads
      // work on different steps, and the order of their completion does not matter.
      const int64_t step = claimed_++;
      lock.unlock();
      Slot made = make(step);
      lock.lock();
      slot(step) = std::move(made);
      if (is_waited_for_ && step == taken_) {
        ready_.notify_one();
      }
    }
  }

  Batch pinned_batch(const std::vector<int64_t>& indices) const {
    if (pinned_source_ != nullptr) {
      return pinned_source_->pinned_batch(indices);
    }
    const Batch batch = dataset_->batch(indices);
    return batch.size() > 0 ? Batch{batch.input.pin_memory(), batch.target.pin_memory()} : batch;
  }

  Slot make(int64_t step) const {
    Slot made;
    made.is_ready = true;
    try {
      made.batch = pins_for_ ? pinned_batch(indices_(step)) : dataset_->batch(indices_(step));
    } catch (...) {
      made.failure = std::current_exception();
    }
    return made;
  }

  const DatasetPtr dataset_;
  const data::PinnedSource* const
      pinned_source_;  // dataset_, or null if it cannot create pinned batches
  const IndexSource indices_;
  const int64_t steps_;
  const std::optional<c10::Device> pins_for_;

  std::mutex mutex_;
  std::condition_variable_any room_;
  std::condition_variable ready_;
  int64_t claimed_;
  int64_t taken_;
  bool is_waited_for_ = false;
  std::vector<Slot> ring_;
  std::vector<std::jthread> threads_;  // last member: joined before the others are destroyed
};

Loader::Loader(DatasetPtr dataset, int64_t steps, IndexSource indices, LoaderOptions options) {
  check(options, steps);
  pipeline_ = std::make_unique<Pipeline>(std::move(dataset), steps, std::move(indices), options);
}

Loader::Loader(DatasetPtr dataset, const DistributedSampler& sampler, LoaderOptions options)
    : Loader(
          in_epoch(std::move(dataset), sampler.epoch()),
          sampler.steps(),
          [sampler](int64_t step) { return sampler.indices(step); },
          options) {}

Loader::Loader(DatasetPtr dataset, const EvaluationSampler& sampler, LoaderOptions options)
    : Loader(
          std::move(dataset),
          sampler.steps(),
          [sampler](int64_t step) { return sampler.indices(step); },
          options) {}

Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

std::optional<Batch> Loader::next() {
  return pipeline_->next();
}

}  // namespace lockstep
