// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <map>
#include <set>

#include "checkpoint/describe.h"
#include "lockstep/checkpoint.h"

namespace lockstep {
namespace checkpoint {
namespace {

// Python's order: what a module has itself, then its children, each with all that is in it.
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

// A name whose tensors differ between the file and the model; null where one has none.
struct Difference {
  std::string name;
  const torch::Tensor* written;
  const torch::Tensor* wanted;
};

using ByName = std::map<std::string_view, const torch::Tensor*>;

ByName index(const NamedTensors& tensors) {
  ByName by_name;
  for (const auto& [name, tensor] : tensors) {
    by_name.emplace(name, &tensor);
  }
  return by_name;
}

// In the model's order, then what only the file has, in the file's order.
std::vector<Difference> compare(const NamedTensors& written, const NamedTensors& wanted) {
  std::vector<Difference> differences;
  const ByName in_file = index(written);
  for (const auto& [name, tensor] : wanted) {
    const auto found = in_file.find(name);
    if (found == in_file.end()) {
      differences.push_back({name, nullptr, &tensor});
    } else if (found->second->sizes() != tensor.sizes() ||
               found->second->scalar_type() != tensor.scalar_type()) {
      differences.push_back({name, found->second, &tensor});
    }
  }
  const ByName in_model = index(wanted);
  for (const auto& [name, tensor] : written) {
    if (!in_model.contains(name)) {
      differences.push_back({name, &tensor, nullptr});
    }
  }
  return differences;
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
  const std::vector<checkpoint::Difference> differences = checkpoint::compare(weights, targets);
  if (!differences.empty()) {
    const checkpoint::Difference& first = differences.front();
    throw Error(ExitCode::Usage, fmt::format("cannot load {}: it is of another model", source))
        .fact("differs",
              differences.size() == 1
                  ? first.name
                  : fmt::format("{}, the first of {}", first.name, differences.size()))
        .fact(
            "file",
            first.written == nullptr ? "has no such tensor" : checkpoint::describe(*first.written))
        .fact("model",
              first.wanted == nullptr ? "has no such parameter or buffer"
                                      : checkpoint::describe(*first.wanted));
  }

  const torch::NoGradGuard no_grad;
  const checkpoint::ByName by_name = checkpoint::index(weights);
  for (auto& [name, target] : targets) {
    target.copy_(*by_name.at(name));
  }
}

}  // namespace lockstep
