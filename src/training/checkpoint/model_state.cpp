// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <map>
#include <torch/utils.h>

#include "lockstep/checkpoint.h"
#include "training/checkpoint/describe.h"
#include "training/checkpoint/optimizer_value.h"

namespace lockstep {
namespace checkpoint {
namespace {

// The order of state_dict() in Python: own parameters and buffers, then each child, recursively.
void collect(const torch::nn::Module& module, const std::string& prefix, NamedTensors& tensors) {
  for (const auto& parameter : module.named_parameters(/*recurse=*/false)) {
    tensors.emplace_back(prefix + parameter.key(), parameter.value());
  }
  for (const auto& buffer : module.named_buffers(/*recurse=*/false)) {
    if (buffer.value().defined()) {
      tensors.emplace_back(prefix + buffer.key(), buffer.value());
    }
  }
  for (const auto& child : module.named_children()) {
    collect(*child.value(), prefix + child.key() + ".", tensors);
  }
}

// A tensor that differs between file and model; an empty description: it does not exist there.
struct Difference {
  std::string name;
  std::string written;
  std::string wanted;
};

using Descriptions = std::vector<std::pair<std::string, std::string>>;  // by name, in order

Descriptions describe_all(const NamedTensors& tensors) {
  Descriptions descriptions;
  descriptions.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors) {
    descriptions.emplace_back(name, describe(tensor));
  }
  return descriptions;
}

// In the order of the model, then tensors that only the file has, in the order of the file.
std::vector<Difference> compare(const Descriptions& written, const Descriptions& wanted) {
  std::vector<Difference> differences;
  const std::map<std::string_view, std::string_view> in_file(written.begin(), written.end());
  for (const auto& [name, description] : wanted) {
    const auto found = in_file.find(name);
    if (found == in_file.end()) {
      differences.push_back({name, "", description});
    } else if (found->second != description) {
      differences.push_back({name, std::string(found->second), description});
    }
  }
  const std::map<std::string_view, std::string_view> in_model(wanted.begin(), wanted.end());
  for (const auto& [name, description] : written) {
    if (!in_model.contains(name)) {
      differences.push_back({name, description, ""});
    }
  }
  return differences;
}

void require_same(const Descriptions& written,
                  const Descriptions& wanted,
                  std::string_view source) {
  const std::vector<Difference> differences = compare(written, wanted);
  if (differences.empty()) {
    return;
  }
  const Difference& first = differences.front();
  throw Error(ExitCode::Usage, fmt::format("cannot load {}: it belongs to another model", source))
      .fact("differs",
            differences.size() == 1
                ? first.name
                : fmt::format("{}, the first of {} differences", first.name, differences.size()))
      .fact("file", first.written.empty() ? "has no such tensor" : first.written)
      .fact("model", first.wanted.empty() ? "has no such parameter or buffer" : first.wanted);
}

}  // namespace
}  // namespace checkpoint

NamedTensors collect_model(const torch::nn::Module& model) {
  NamedTensors tensors;
  checkpoint::collect(model, "", tensors);
  return tensors;
}

void apply_model(torch::nn::Module& model, const NamedTensors& weights, std::string_view source) {
  NamedTensors targets = collect_model(model);
  std::map<std::string_view, const torch::Tensor*> by_name;
  for (const auto& [name, tensor] : weights) {
    by_name.emplace(name, &tensor);
  }
  // Weights from before PyTorch 0.4.1 have no num_batches_tracked. PyTorch also accepts them.
  std::erase_if(targets, [&by_name](const auto& item) {
    return item.first.ends_with(".num_batches_tracked") && !by_name.contains(item.first);
  });
  checkpoint::require_same(
      checkpoint::describe_all(weights), checkpoint::describe_all(targets), source);
  // Everything was compared above: a model is loaded completely or not changed. copy_() keeps the
  // storage, so that optimizers and gradient buckets which refer to it stay valid.
  const torch::NoGradGuard no_grad;
  for (auto& [name, target] : targets) {
    target.copy_(*by_name.at(name));
  }
}

void apply_model(torch::nn::Module& model, const PieceSource& source) {
  NamedTensors targets = collect_model(model);
  checkpoint::Descriptions written;
  for (const std::string& name : source.names()) {
    if (name.starts_with(checkpoint::kModelPrefix)) {
      written.emplace_back(name.substr(checkpoint::kModelPrefix.size()),
                           checkpoint::describe(source.dtype(name), source.shape(name)));
    }
  }
  checkpoint::require_same(written, checkpoint::describe_all(targets), source.description());
  const torch::NoGradGuard no_grad;
  for (auto& [name, target] : targets) {
    source.read(fmt::format("{}{}", checkpoint::kModelPrefix, name), 0, target);
  }
}

}  // namespace lockstep
