// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/horovod/autotune.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::strategy::horovod {
namespace {

constexpr double kMaxFusion = 64.0 * (1 << 20);
constexpr double kMinCycle = 1;
constexpr double kMaxCycle = 100;
constexpr int kCandidates = 2000;
// Requires a small improvement over the best, so that the search does not stay at one point.
constexpr double kMargin = 0.01;

// Tried before the model has data: small and large buffers, short and long cycles.
constexpr Setting kFirst[] = {{.fusion_bytes = 32 << 20, .cycle_ms = 5},
                              {.fusion_bytes = 1 << 20, .cycle_ms = 1},
                              {.fusion_bytes = 8 << 20, .cycle_ms = 25}};

// Bayesian optimization as in Horovod: a Gaussian process models bytes per second over (fusion
// buffer, cycle time); the next setting to try is the candidate with the largest expected
// improvement over the best (Rasmussen, Williams 2006, chapters 2 and 5; Jones et al. 1998).

torch::TensorOptions exact() {
  return torch::dtype(torch::kFloat64);
}

torch::Tensor covariance(const torch::Tensor& a, const torch::Tensor& b, double length) {
  return torch::exp(-(a.unsqueeze(1) - b.unsqueeze(0)).pow(2).sum(-1) / (2 * length * length));
}

// The points of settings in the unit square.
torch::Tensor point_of(const std::vector<Setting>& settings) {
  torch::Tensor points = torch::empty({static_cast<int64_t>(settings.size()), 2}, exact());
  for (size_t i = 0; i < settings.size(); ++i) {
    const auto row = static_cast<int64_t>(i);
    points[row][0] = static_cast<double>(settings[i].fusion_bytes) / kMaxFusion;
    points[row][1] = (settings[i].cycle_ms - kMinCycle) / (kMaxCycle - kMinCycle);
  }
  return points;
}

}  // namespace

GaussianProcess::GaussianProcess(torch::Tensor points, torch::Tensor scores, double noise)
    : points_(std::move(points)), scores_(std::move(scores)), noise_(noise) {
  double best_length = 0;
  double best_likelihood = 0;
  for (const double length : {0.05, 0.1, 0.2, 0.4, 0.8, 1.6}) {
    fit(length);
    if (best_length == 0 || likelihood_ > best_likelihood) {
      best_length = length;
      best_likelihood = likelihood_;
    }
  }
  fit(best_length);
}

// With K the covariance of the points plus noise and y the scores: K = L L^T, weights = K^-1 y. The
// log likelihood is -(y . weights) / 2 - log |L|, without a constant; it selects the length scale.
void GaussianProcess::fit(double length) {
  length_ = length;
  const int64_t count = points_.size(0);
  const torch::Tensor noisy =
      covariance(points_, points_, length) + (noise_ + 1e-9) * torch::eye(count, exact());
  factor_ = torch::linalg_cholesky(noisy);
  weights_ = torch::cholesky_solve(scores_.unsqueeze(1), factor_);
  likelihood_ = -0.5 * scores_.dot(weights_.squeeze(1)).item<double>() -
                factor_.diagonal().log().sum().item<double>();
}

std::pair<torch::Tensor, torch::Tensor> GaussianProcess::predict(
    const torch::Tensor& points) const {
  const torch::Tensor cross = covariance(points, points_, length_);  // [m, n]
  const torch::Tensor mean = cross.matmul(weights_).squeeze(1);
  const torch::Tensor solved = torch::cholesky_solve(cross.t(), factor_);  // [n, m]
  const torch::Tensor variance = 1 - (cross.t() * solved).sum(0);
  return {mean, variance.clamp_min(1e-12).sqrt()};
}

torch::Tensor GaussianProcess::expected_improvement(const torch::Tensor& points,
                                                    double best) const {
  // EI = gain * Phi(z) + deviation * phi(z), with the distribution and density of a normal
  // variable.
  const auto [mean, deviation] = predict(points);
  const torch::Tensor gain = mean - best - kMargin;
  const torch::Tensor z = gain / deviation;
  const torch::Tensor below = 0.5 * (1 + torch::erf(z / std::sqrt(2.0)));
  const torch::Tensor density = torch::exp(-0.5 * z.pow(2)) / std::sqrt(2 * M_PI);
  return gain * below + deviation * density;
}

Autotune::Autotune(const HorovodOptions& options, Clock::time_point now)
    : options_(options), warmup_left_(options.autotune_warmup_samples), since_(now) {
  // The search starts at the setting of the user, limited to the search range.
  setting_ = {.fusion_bytes = std::min(options.fusion_bytes, static_cast<int64_t>(kMaxFusion)),
              .cycle_ms = std::clamp(options.cycle_ms, kMinCycle, kMaxCycle)};
  if (!options.autotune_log.empty()) {
    log_.open(options.autotune_log, std::ios::trunc);
    if (!log_) {
      throw Error(ExitCode::Io,
                  fmt::format("cannot write the autotune log {}", options.autotune_log))
          .fact("reason", std::strerror(errno), "system")
          .hint("HOROVOD_AUTOTUNE_LOG=FILE in a directory that exists");
    }
    log_ << "sample,fusion_bytes,cycle_ms,bytes_per_second\n" << std::flush;
  }
}

std::optional<Setting> Autotune::step(int64_t bytes, Clock::time_point now) {
  bytes_ += bytes;
  if (is_done_ || ++steps_ < options_.autotune_steps_per_sample) {
    return std::nullopt;
  }
  // One sample takes several steps, so that noise averages out. All workers get the new setting in
  // the same cycle (Response::Kind::Tune).
  const double score =
      static_cast<double>(bytes_) / std::chrono::duration<double>(now - since_).count();
  steps_ = 0;
  bytes_ = 0;
  since_ = now;
  if (warmup_left_ > 0) {
    --warmup_left_;
    return std::nullopt;
  }
  tried_.push_back(setting_);
  scores_.push_back(score);
  if (log_.is_open()) {
    log_ << fmt::format("{},{},{:.3f},{:.0f}\n",
                        tried_.size(),
                        setting_.fusion_bytes,
                        setting_.cycle_ms,
                        score)
         << std::flush;
  }
  if (static_cast<int>(tried_.size()) >= options_.autotune_max_samples) {
    const auto best = std::max_element(scores_.begin(), scores_.end()) - scores_.begin();
    setting_ = tried_[static_cast<size_t>(best)];
    is_done_ = true;
  } else {
    setting_ = next();
  }
  return setting_;
}

Setting Autotune::next() {
  if (tried_.size() <= std::size(kFirst)) {
    return kFirst[tried_.size() - 1];
  }
  torch::Tensor scores = torch::tensor(scores_, exact());
  const auto deviation = scores.std(/*unbiased=*/false).item<double>();
  scores = (scores - scores.mean()) / std::max(deviation, 1e-12);
  const GaussianProcess model(point_of(tried_), scores, options_.autotune_noise);

  std::uniform_real_distribution<double> anywhere(0, 1);
  std::vector<Setting> candidates;
  for (int i = 0; i < kCandidates; ++i) {
    candidates.push_back({.fusion_bytes = static_cast<int64_t>(anywhere(chance_) * kMaxFusion),
                          .cycle_ms = kMinCycle + anywhere(chance_) * (kMaxCycle - kMinCycle)});
  }
  const torch::Tensor gain =
      model.expected_improvement(point_of(candidates), scores.max().item<double>());
  return candidates[static_cast<size_t>(gain.argmax().item<int64_t>())];
}

std::string Autotune::pinned() const {
  return fmt::format("HOROVOD_FUSION_THRESHOLD={} HOROVOD_CYCLE_TIME={:.3g}",
                     setting_.fusion_bytes,
                     setting_.cycle_ms);
}

}  // namespace lockstep::strategy::horovod
