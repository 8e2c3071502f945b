// SPDX-License-Identifier: Apache-2.0
#include "training/checkpoint/optimizer_value.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::ordered_json;
using Dict = c10::impl::GenericDict;

// The options of the optimizer in state.json, readable by a person; the tensors of its state are in
// the shards under "optimizer.PARAMETER.FIELD":
//
//   {"kind": "Adam", "groups": [{"lr": 0.001, "betas": [0.9, 0.999], ..., "params":
//   ["conv1.weight"]}]}
Json to_json(const c10::IValue& value) {
  if (value.isDouble()) {
    return value.toDouble();
  }
  if (value.isBool()) {
    return value.toBool();
  }
  if (value.isInt()) {
    return value.toInt();
  }
  if (value.isString()) {
    return value.toStringRef();
  }
  Json list = Json::array();
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) {
      list.push_back(to_json(element));
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) {
      list.push_back(to_json(element));
    }
  }
  return list;
}

// JSON has no tuples: a list of numbers becomes a tuple (betas), any other list a list (params).
c10::IValue from_json(const Json& json) {
  if (json.is_number_float()) {
    return json.get<double>();
  }
  if (json.is_boolean()) {
    return json.get<bool>();
  }
  if (json.is_number()) {
    return json.get<int64_t>();
  }
  if (json.is_string()) {
    return json.get<std::string>();
  }
  if (!json.empty() && json.front().is_number()) {
    std::vector<c10::IValue> elements;
    elements.reserve(json.size());
    for (const Json& element : json) {
      elements.push_back(from_json(element));
    }
    return c10::ivalue::Tuple::create(std::move(elements));
  }
  c10::impl::GenericList list(c10::AnyType::get());
  for (const Json& element : json) {
    list.push_back(from_json(element));
  }
  return list;
}

Dict new_dict() {
  return Dict(c10::StringType::get(), c10::AnyType::get());
}

}  // namespace

std::string describe_value(const c10::IValue& value) {
  const Dict root = value.toGenericDict();
  Json groups = Json::array();
  for (const c10::IValue& group : root.at("param_groups").toListRef()) {
    Json options = Json::object();
    for (const auto& option : group.toGenericDict()) {
      options[option.key().toStringRef()] = to_json(option.value());
    }
    groups.push_back(std::move(options));
  }
  return Json{{"kind", root.at("kind").toStringRef()}, {"groups", groups}}.dump();
}

c10::IValue parse_description(const std::string& description, std::string_view source) {
  if (description.empty()) {
    throw Error(ExitCode::Usage,
                fmt::format("cannot load {}: it contains no optimizer state of lockstep", source));
  }
  const Json json = Json::parse(description);
  c10::impl::GenericList groups(c10::AnyType::get());
  for (const Json& group : json.at("groups")) {
    Dict options = new_dict();
    for (const auto& [name, value] : group.items()) {
      options.insert(name, from_json(value));
    }
    groups.push_back(options);
  }
  Dict root = new_dict();
  root.insert("kind", json.at("kind").get<std::string>());
  root.insert("param_groups", groups);
  return root;
}

NamedTensors state_tensors(const c10::IValue& value) {
  NamedTensors tensors;
  for (const auto& parameter : value.toGenericDict().at("state").toGenericDict()) {
    for (const auto& item : parameter.value().toGenericDict()) {
      const std::string name = fmt::format(
          "{}{}.{}", kOptimizerPrefix, parameter.key().toStringRef(), item.key().toStringRef());
      if (item.value().isTensor()) {
        tensors.emplace_back(name, item.value().toTensor());
        // The step counter. 64 bits: a float32 counter, as in newer versions of PyTorch, would stop
        // at 2^24.
      } else if (item.value().isInt()) {
        tensors.emplace_back(name, torch::scalar_tensor(item.value().toInt(), torch::kInt64));
      }
    }
  }
  return tensors;
}

// Version 2 has the description in state.json, version 1 the whole optimizer in a part.
std::string find_description(const CheckpointReader& reader) {
  if (!reader.state().optimizer.empty() || !reader.has(kOptimizerPart)) {
    return reader.state().optimizer;
  }
  return describe_value(reader.value(kOptimizerPart));
}

}  // namespace lockstep::checkpoint
