// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/shared/same_model.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string>
#include <vector>

#include "common/base/text.h"
#include "lockstep/error.h"

namespace lockstep::strategy {
namespace {

// One line per tensor, which must be equal on all workers.
std::string describe(const torch::nn::Module& model) {
  std::string text;
  const auto add = [&text](const char* kind, const std::string& name, const torch::Tensor& tensor) {
    text += fmt::format("{} '{}' [{}] {}{}\n",
                        kind,
                        name,
                        fmt::join(tensor.sizes().begin(), tensor.sizes().end(), ", "),
                        toString(tensor.scalar_type()),
                        tensor.requires_grad() ? "" : ", not trained");
  };
  for (const auto& item : model.named_parameters()) {
    add("parameter", item.key(), item.value());
  }
  for (const auto& item : model.named_buffers()) {
    add("buffer", item.key(), item.value());
  }
  return text;
}

}  // namespace

void require_same_model(Communicator& communicator, const torch::nn::Module& model) {
  // All workers have all texts and find the same difference, so all throw the same Error and none
  // waits in a later collective.
  const std::vector<std::string> texts = communicator.all_gather_bytes(describe(model));
  const std::vector<std::string> first = split(texts.front(), '\n');
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts.front()) {
      continue;
    }
    const std::vector<std::string> other = split(texts[rank], '\n');
    const auto [here, there] =
        std::mismatch(first.begin(), first.end(), other.begin(), other.end());
    const auto line = [](auto position, auto end) {
      return position == end || position->empty() ? std::string("no further tensor") : *position;
    };
    throw Error(ExitCode::Usage, fmt::format("ranks 0 and {} have different models", rank))
        .fact("rank 0", line(here, first.end()))
        .fact(fmt::format("rank {}", rank), line(there, other.end()))
        .hint("build the model from the same options on every worker");
  }
}

}  // namespace lockstep::strategy
