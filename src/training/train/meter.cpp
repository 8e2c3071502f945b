// SPDX-License-Identifier: Apache-2.0
#include <torch/utils.h>

#include "lockstep/metrics.h"

namespace lockstep {
namespace {

constexpr int64_t kBest = 5;

// Returns, for each row, the number of scores that rank above the score of the target: those that
// are higher, and those that are equal and precede it. NaN ranks above every number, and a target
// whose score is NaN ranks last, so that a diverged model never counts as correct.
torch::Tensor places(const torch::Tensor& scores, const torch::Tensor& target) {
  const torch::Tensor index = target.clamp_min(0).unsqueeze(1);
  const torch::Tensor own = scores.gather(1, index);
  const torch::Tensor classes = torch::arange(scores.size(1), target.options());
  const torch::Tensor equal_before = scores.eq(own).logical_and(classes.lt(index));
  return scores.le(own).logical_not().logical_or(equal_before).sum(1);
}

void add_to(torch::Tensor& sum, const torch::Tensor& count) {
  sum = sum.defined() ? sum.add_(count) : count;
}

double number(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.item<double>() : 0;
}

}  // namespace

void Meter::add(const torch::Tensor& mean_loss, int64_t samples) {
  torch::NoGradGuard no_grad;
  // Accumulated in float64, because a float32 sum over many batches loses digits. A single operator
  // converts, multiplies and adds: for small networks the launch overhead of each one is visible.
  if (!loss_sum_.defined()) {
    loss_sum_ = torch::zeros({}, mean_loss.options().dtype(torch::kFloat64).requires_grad(false));
  }
  loss_sum_.add_(mean_loss, static_cast<double>(samples));
  samples_ += samples;
}

void Meter::add_scores(const torch::Tensor& scores, const torch::Tensor& target, bool with_top5) {
  torch::NoGradGuard no_grad;
  add_to(correct_, scores.argmax(1).eq(target).sum());
  scored_ += target.size(0);
  if (with_top5 && scores.dim() == 2 && scores.size(1) > kBest) {
    // A negative target is not a class; places() has clamped it to 0.
    add_to(correct5_, places(scores, target).lt(kBest).logical_and(target.ge(0)).sum());
    scored5_ += target.size(0);
  }
}

// One collective for all sums. Counts are exact as float64 up to 2^53. Reading the sums waits for
// the GPU, so this is called at the end of an epoch or an evaluation only.
void Meter::all_reduce(Communicator& communicator) {
  torch::Tensor sums = torch::tensor({number(loss_sum_),
                                      number(correct_),
                                      number(correct5_),
                                      static_cast<double>(samples_),
                                      static_cast<double>(scored_),
                                      static_cast<double>(scored5_)},
                                     torch::kFloat64);
  communicator.all_reduce(sums);
  loss_sum_ = sums[0].clone();
  correct_ = sums[1].clone();
  correct5_ = sums[2].clone();
  samples_ = sums[3].item<int64_t>();
  scored_ = sums[4].item<int64_t>();
  scored5_ = sums[5].item<int64_t>();
}

// Stays on the device: merging does not wait for the GPU.
void Meter::merge(const Meter& other) {
  const auto sum = [](const torch::Tensor& a, const torch::Tensor& b) {
    return a.defined() && b.defined() ? a + b : (a.defined() ? a : b);
  };
  loss_sum_ = sum(loss_sum_, other.loss_sum_);
  correct_ = sum(correct_, other.correct_);
  correct5_ = sum(correct5_, other.correct5_);
  samples_ += other.samples_;
  scored_ += other.scored_;
  scored5_ += other.scored5_;
}

double Meter::correct() const {
  return number(correct_);
}

// Layout: [loss sum, correct], float64. DelayedStatus copies it to the host without waiting.
torch::Tensor Meter::sums() const {
  const torch::Tensor none = torch::zeros(
      {},
      torch::dtype(torch::kFloat64)
          .device(loss_sum_.defined() ? loss_sum_.device() : torch::Device(torch::kCPU)));
  return torch::stack({loss_sum_.defined() ? loss_sum_ : none,
                       correct_.defined() ? correct_.to(torch::kFloat64) : none});
}

void Meter::reset() {
  *this = Meter();
}

double Meter::loss() const {
  return samples_ == 0 ? 0 : loss_sum_.item<double>() / static_cast<double>(samples_);
}

std::optional<double> Meter::accuracy() const {
  if (scored_ == 0) {
    return std::nullopt;
  }
  return correct_.item<double>() / static_cast<double>(scored_);
}

std::optional<double> Meter::top5() const {
  if (scored5_ == 0) {
    return std::nullopt;
  }
  return correct5_.item<double>() / static_cast<double>(scored5_);
}

// The first call only starts the clock: the first step includes one-time costs (allocation,
// selection of algorithms) and is not counted.
void Throughput::add(int64_t samples, Clock::time_point now) {
  if (!begun_) {
    begun_ = now;
    start_ = now;
    last_ = now;
    return;
  }
  samples_ += samples;
  last_ = now;
}

double Throughput::rate() const {
  const double seconds = std::chrono::duration<double>(last_ - start_).count();
  return seconds > 0 ? static_cast<double>(samples_) / seconds : 0;
}

}  // namespace lockstep
