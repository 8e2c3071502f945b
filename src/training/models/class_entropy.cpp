// SPDX-License-Identifier: Apache-2.0
#include "training/models/class_entropy.h"

#include "lockstep/models.h"

namespace lockstep {

torch::Tensor models::class_entropy(const torch::Tensor& scores,
                                    const torch::Tensor& targets,
                                    double smoothing) {
  const torch::Tensor exact = scores.element_size() < 4 ? scores.to(torch::kFloat32) : scores;
  return torch::nn::functional::cross_entropy(
      exact, targets, torch::nn::functional::CrossEntropyFuncOptions().label_smoothing(smoothing));
}

std::pair<torch::Tensor, torch::Tensor> ImageClassifier::loss_and_scores(
    const torch::Tensor& images, const torch::Tensor& targets, double smoothing) {
  torch::Tensor scores = forward(images);
  return {models::class_entropy(scores, targets, smoothing), scores};
}

}  // namespace lockstep
