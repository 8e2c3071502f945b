// SPDX-License-Identifier: Apache-2.0
#include "training/models/class_entropy.h"

#include "lockstep/models.h"

namespace lockstep {

torch::Tensor models::class_entropy(const torch::Tensor& scores,
                                    const torch::Tensor& targets,
                                    double smoothing) {
  const torch::Tensor exact = scores.element_size() < 4 ? scores.to(torch::kFloat32) : scores;
  return torch::cross_entropy_loss(exact,
                                   targets,
                                   /*weight=*/{},
                                   at::Reduction::Mean,
                                   /*ignore_index=*/-100,
                                   smoothing);
}

std::pair<torch::Tensor, torch::Tensor> ImageClassifier::loss_and_scores(
    const torch::Tensor& images, const torch::Tensor& targets, double smoothing) {
  torch::Tensor scores = forward(images);
  return {models::class_entropy(scores, targets, smoothing), scores};
}

}  // namespace lockstep
