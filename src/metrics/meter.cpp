// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics.h"

namespace lockstep {

void Meter::add(const torch::Tensor& mean_loss, int64_t samples) {
  torch::NoGradGuard no_grad;
  // A mean of float32 over many batches loses digits if it is added up in float32. One operator:
  // small networks feel each of them.
  if (!loss_sum_.defined()) {
    loss_sum_ = torch::zeros({}, mean_loss.options().dtype(torch::kFloat64).requires_grad(false));
  }
  loss_sum_.add_(mean_loss, static_cast<double>(samples));
  samples_ += samples;
}

void Meter::add_scores(const torch::Tensor& scores, const torch::Tensor& target) {
  torch::NoGradGuard no_grad;
  const torch::Tensor correct = scores.argmax(1).eq(target).sum();
  correct_ = correct_.defined() ? correct_.add_(correct) : correct;
  scored_ += target.size(0);
}

void Meter::all_reduce(Communicator& communicator) {
  const auto number = [](const torch::Tensor& tensor) {
    return tensor.defined() ? tensor.item<double>() : 0.0;
  };
  torch::Tensor sums = torch::tensor({number(loss_sum_),
                                      number(correct_),
                                      static_cast<double>(samples_),
                                      static_cast<double>(scored_)},
                                     torch::kFloat64);
  communicator.all_reduce(sums);
  loss_sum_ = sums[0].clone();
  correct_ = sums[1].clone();
  samples_ = sums[2].item<int64_t>();
  scored_ = sums[3].item<int64_t>();
}

void Meter::merge(const Meter& other) {
  const auto sum = [](const torch::Tensor& a, const torch::Tensor& b) {
    return a.defined() && b.defined() ? a + b : (a.defined() ? a : b);
  };
  loss_sum_ = sum(loss_sum_, other.loss_sum_);
  correct_ = sum(correct_, other.correct_);
  samples_ += other.samples_;
  scored_ += other.scored_;
}

double Meter::correct() const {
  return correct_.defined() ? correct_.item<double>() : 0;
}

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
