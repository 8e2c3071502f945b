// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <functional>
#include <map>
#include <torch/utils.h>

#include "lockstep/checkpoint.h"
#include "training/checkpoint/describe.h"
#include "training/checkpoint/optimizer_kinds.h"
#include "training/checkpoint/optimizer_value.h"
#include "training/optim/state_key.h"

// The state of an optimizer as a value:
//
//   {"kind": "Adam",
//    "state": {"conv1.weight": {"step": 938, "exp_avg": ..., "exp_avg_sq": ...}, ...},
//    "param_groups": [{"lr": 0.001, "betas": (0.9, 0.999), ..., "params": ["conv1.weight", ...]}]}
namespace lockstep {
namespace checkpoint {
namespace {

using Dict = c10::impl::GenericDict;
using ByName = std::map<std::string, torch::Tensor>;

using optim::state_key;
using optim::StateMap;

Dict new_dict() {
  return Dict(c10::StringType::get(), c10::AnyType::get());
}

// Archive that stores the fields of an object in a dict.
class Save {
 public:
  void operator()(const char* name, double value) { dict_.insert(name, value); }
  void operator()(const char* name, bool value) { dict_.insert(name, value); }
  void operator()(const char* name, int64_t value) { dict_.insert(name, value); }
  void operator()(const char* name, const std::tuple<double, double>& value) {
    dict_.insert(name, c10::ivalue::Tuple::create({std::get<0>(value), std::get<1>(value)}));
  }
  // An undefined tensor is stored as no key, as in PyTorch.
  void operator()(const char* name, const torch::Tensor& value) {
    if (value.defined()) {
      dict_.insert(name, value);
    }
  }

  Dict take() { return std::move(dict_); }

 private:
  Dict dict_ = new_dict();
};

// Archive that restores and checks fields. Tensors must have the shape of the parameter `like`.
class Load {
 public:
  Load(Dict dict, std::string where, const torch::Tensor& like, std::string_view source)
      : dict_(std::move(dict)), where_(std::move(where)), like_(like), source_(source) {}

  void operator()(const char* name, double& value) {
    value = find(name, &c10::IValue::isDouble).toDouble();
  }
  void operator()(const char* name, bool& value) {
    value = find(name, &c10::IValue::isBool).toBool();
  }
  void operator()(const char* name, int64_t& value) {
    value = find(name, &c10::IValue::isInt).toInt();
  }
  void operator()(const char* name, std::tuple<double, double>& value) {
    const c10::IValue pair = find(name, &c10::IValue::isTuple);
    const auto& elements = pair.toTupleRef().elements();
    if (elements.size() != 2 || !elements[0].isDouble() || !elements[1].isDouble()) {
      refuse(name, "is not a pair of numbers");
    }
    value = {elements[0].toDouble(), elements[1].toDouble()};
  }
  void operator()(const char* name, torch::Tensor& value) {
    if (!dict_.contains(name)) {
      return;
    }
    const torch::Tensor found = find(name, &c10::IValue::isTensor).toTensor();
    if (found.sizes() != like_.sizes() || found.scalar_type() != like_.scalar_type()) {
      refuse(name, fmt::format("is {}, the parameter is {}", describe(found), describe(like_)));
    }
    // A copy, because loaded tensors can share storage; with format and device of the parameter.
    value = torch::empty_like(like_, like_.options().requires_grad(false));
    value.copy_(found);
  }

 private:
  c10::IValue find(const char* name, bool (c10::IValue::*is_of_type)() const) const {
    if (!dict_.contains(name)) {
      refuse(name, "is missing");
    }
    c10::IValue value = dict_.at(name);
    if (!(value.*is_of_type)()) {
      refuse(name, fmt::format("is a {}", value.tagKind()));
    }
    return value;
  }

  [[noreturn]] void refuse(const char* name, std::string_view why) const {
    throw Error(ExitCode::Usage,
                fmt::format("cannot load {}: it does not match this optimizer", source_))
        .fact("differs", fmt::format("\"{}\" of {} {}", name, where_, why));
  }

  Dict dict_;
  std::string where_;
  torch::Tensor like_;
  std::string_view source_;
};

// Archive that restores the state of one parameter from pieces, if they contain any.
class LoadPieces {
 public:
  LoadPieces(const PieceSource& source, std::string_view parameter, const torch::Tensor& like)
      : source_(source), prefix_(fmt::format("{}{}.", kOptimizerPrefix, parameter)), like_(like) {}

  void operator()(const char* key, int64_t& value) {
    if (torch::Tensor number = torch::zeros({}, torch::kInt64); find(key, number)) {
      value = number.item<int64_t>();
    }
  }
  void operator()(const char* key, torch::Tensor& value) {
    const torch::Tensor fresh = torch::empty_like(like_, like_.options().requires_grad(false));
    if (torch::Tensor target = fresh; find(key, target)) {
      value = target;
    }
  }

  bool found() const { return found_; }

 private:
  bool find(const char* key, torch::Tensor& into) {
    const std::string name = prefix_ + key;
    if (!source_.has(name)) {
      return false;
    }
    if (source_.shape(name) != into.sizes().vec()) {
      throw Error(
          ExitCode::Usage,
          fmt::format("cannot load {}: it does not match this optimizer", source_.description()))
          .fact("differs", name)
          .fact("checkpoint", fmt::format("[{}]", fmt::join(source_.shape(name), ", ")))
          .fact("program", describe(into));
    }
    source_.read(name, 0, into);
    found_ = true;
    return true;
  }

  const PieceSource& source_;
  std::string prefix_;
  torch::Tensor like_;
  bool found_ = false;
};

// Parameters are saved by name, not by position as in Python, so that a model can be extended or
// reordered without mixing up the states.
std::string name_of(const torch::Tensor& parameter, const NamedTensors& parameters) {
  for (const auto& [name, tensor] : parameters) {
    if (tensor.unsafeGetTensorImpl() == parameter.unsafeGetTensorImpl()) {
      return name;
    }
  }
  throw Error(ExitCode::Usage, "a parameter of the optimizer does not belong to the model")
      .fact("parameter", describe(parameter));
}

template <typename Kind>
c10::IValue collect(const torch::optim::Optimizer& optimizer, const NamedTensors& parameters) {
  Dict states = new_dict();
  c10::impl::GenericList groups(c10::AnyType::get());
  for (const auto& group : optimizer.param_groups()) {
    auto options = dynamic_cast<const typename Kind::Options&>(group.options());
    Save saved_options;
    Kind::options(options, saved_options);
    c10::impl::GenericList names(c10::AnyType::get());
    for (const torch::Tensor& parameter : group.params()) {
      const std::string name = name_of(parameter, parameters);
      names.push_back(name);
      const auto found = optimizer.state().find(state_key<StateMap>(parameter));
      if (found != optimizer.state().end()) {
        auto state = dynamic_cast<const typename Kind::State&>(*found->second);
        Save saved_state;
        Kind::state(state, saved_state);
        states.insert(name, saved_state.take());
      }
    }
    Dict saved = saved_options.take();
    saved.insert("params", names);
    groups.push_back(saved);
  }
  Dict root = new_dict();
  root.insert("kind", Kind::kName);
  root.insert("state", states);
  root.insert("param_groups", groups);
  return root;
}

[[noreturn]] void refuse(std::string_view source,
                         std::string_view why,
                         std::string_view file,
                         std::string_view program) {
  throw Error(ExitCode::Usage, fmt::format("cannot load {}: {}", source, why))
      .fact("file", file)
      .fact("program", program);
}

// The entry `name` of a dict, if it has the expected type.
c10::IValue entry(const c10::IValue& dict,
                  const char* name,
                  bool (c10::IValue::*is_of_type)() const,
                  std::string_view source) {
  if (dict.isGenericDict() && dict.toGenericDict().contains(name)) {
    c10::IValue value = dict.toGenericDict().at(name);
    if ((value.*is_of_type)()) {
      return value;
    }
  }
  throw Error(ExitCode::Usage,
              fmt::format("cannot load {}: it contains no optimizer state of lockstep", source))
      .fact("missing", fmt::format("\"{}\"", name));
}

std::string join_names(const c10::IValue& list) {
  std::string text;
  for (const c10::IValue& name : list.toListRef()) {
    text += (text.empty() ? "" : ", ") + (name.isString() ? name.toStringRef() : "?");
  }
  return text;
}

// Two sources have the same structure: a value as above (version 1, or in memory), and pieces of
// tensors in shards with the options as JSON (version 2). LoadState hides the difference.

// Fills the state of the parameter with this name; false: it has no state.
template <typename Kind>
using LoadState =
    std::function<bool(const std::string&, const torch::Tensor&, typename Kind::State&)>;

// The names of the parameters of each group.
std::vector<std::string> group_names(const torch::optim::Optimizer& optimizer,
                                     const NamedTensors& parameters) {
  std::vector<std::string> names;
  names.reserve(optimizer.param_groups().size());
  for (const auto& group : optimizer.param_groups()) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (const torch::Tensor& parameter : group.params()) {
      list.push_back(name_of(parameter, parameters));
    }
    names.push_back(join_names(list));
  }
  return names;
}

// The options of the groups in `value`, whose parameters must be `names`.
template <typename Kind>
std::vector<typename Kind::Options> load_options(const torch::optim::Optimizer& optimizer,
                                                 const std::vector<std::string>& names,
                                                 const c10::IValue& value,
                                                 std::string_view source) {
  const c10::IValue list = entry(value, "param_groups", &c10::IValue::isList, source);
  const auto saved_groups = list.toListRef();
  if (saved_groups.size() != optimizer.param_groups().size()) {
    refuse(source,
           "the number of parameter groups differs",
           std::to_string(saved_groups.size()),
           std::to_string(optimizer.param_groups().size()));
  }
  std::vector<typename Kind::Options> options;
  options.reserve(saved_groups.size());
  for (size_t i = 0; i < saved_groups.size(); ++i) {
    const c10::IValue& saved = saved_groups[i];
    const std::string found = join_names(entry(saved, "params", &c10::IValue::isList, source));
    if (found != names[i]) {
      refuse(source, fmt::format("the parameters of group {} differ", i), found, names[i]);
    }
    const auto& group = optimizer.param_groups()[i];
    options.push_back(dynamic_cast<const typename Kind::Options&>(group.options()));
    Load load(saved.toGenericDict(), fmt::format("group {}", i), {}, source);
    Kind::options(options.back(), load);
  }
  return options;
}

template <typename Kind>
void set_options(torch::optim::Optimizer& optimizer,
                 const std::vector<typename Kind::Options>& options) {
  for (size_t i = 0; i < options.size(); ++i) {
    dynamic_cast<typename Kind::Options&>(optimizer.param_groups()[i].options()) = options[i];
  }
}

// Creates all new objects before it installs the first, so that an error changes nothing.
template <typename Kind>
void apply(torch::optim::Optimizer& optimizer,
           const NamedTensors& parameters,
           const c10::IValue& value,
           const LoadState<Kind>& load_state,
           std::string_view source) {
  const auto options =
      load_options<Kind>(optimizer, group_names(optimizer, parameters), value, source);
  StateMap new_states;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      auto state = std::make_unique<typename Kind::State>();
      if (load_state(name_of(parameter, parameters), parameter, *state)) {
        new_states[state_key<StateMap>(parameter)] = std::move(state);
      }
    }
  }
  set_options<Kind>(optimizer, options);
  optimizer.state() = std::move(new_states);
}

// Reads the state from a result of collect().
template <typename Kind>
LoadState<Kind> from_value(const c10::IValue& value, std::string_view source) {
  const Dict states = entry(value, "state", &c10::IValue::isGenericDict, source).toGenericDict();
  return [states, source](
             const std::string& name, const torch::Tensor& parameter, typename Kind::State& state) {
    if (!states.contains(name)) {
      return false;
    }
    Load load(entry(states, name.c_str(), &c10::IValue::isGenericDict, source).toGenericDict(),
              name,
              parameter,
              source);
    Kind::state(state, load);
    return true;
  };
}

template <typename Kind>
LoadState<Kind> from_pieces(const PieceSource& source) {
  return [&source](
             const std::string& name, const torch::Tensor& parameter, typename Kind::State& state) {
    LoadPieces load(source, name, parameter);
    Kind::state(state, load);
    return load.found();
  };
}

template <typename Kind>
void require_kind(const c10::IValue& value, std::string_view source) {
  const std::string kind = entry(value, "kind", &c10::IValue::isString, source).toStringRef();
  if (kind != Kind::kName) {
    refuse(source, "it belongs to another optimizer", kind, Kind::kName);
  }
}

}  // namespace
}  // namespace checkpoint

c10::IValue collect_optimizer(const torch::optim::Optimizer& optimizer,
                              const NamedTensors& parameters) {
  return checkpoint::with_kind(optimizer, [&]<typename Kind>(Kind) {
    return checkpoint::collect<Kind>(optimizer, parameters);
  });
}

void apply_optimizer(torch::optim::Optimizer& optimizer,
                     const NamedTensors& parameters,
                     const c10::IValue& state,
                     std::string_view source) {
  const torch::NoGradGuard no_grad;
  checkpoint::with_kind(optimizer, [&]<typename Kind>(Kind) {
    checkpoint::require_kind<Kind>(state, source);
    checkpoint::apply<Kind>(
        optimizer, parameters, state, checkpoint::from_value<Kind>(state, source), source);
  });
}

void apply_optimizer(torch::optim::Optimizer& optimizer,
                     const NamedTensors& parameters,
                     const std::string& description,
                     const PieceSource& source) {
  const torch::NoGradGuard no_grad;
  const std::string name = source.description();
  const c10::IValue value = checkpoint::parse_description(description, name);
  checkpoint::with_kind(optimizer, [&]<typename Kind>(Kind) {
    checkpoint::require_kind<Kind>(value, name);
    checkpoint::apply<Kind>(
        optimizer, parameters, value, checkpoint::from_pieces<Kind>(source), name);
  });
}

void apply_optimizer_options(torch::optim::Optimizer& optimizer,
                             const std::string& own,
                             const std::string& description,
                             std::string_view source) {
  const c10::IValue value = checkpoint::parse_description(description, source);
  const c10::IValue mine = checkpoint::parse_description(own, source);
  std::vector<std::string> names;
  for (const c10::IValue& group : mine.toGenericDict().at("param_groups").toListRef()) {
    names.push_back(checkpoint::join_names(group.toGenericDict().at("params")));
  }
  checkpoint::with_kind(optimizer, [&]<typename Kind>(Kind) {
    checkpoint::require_kind<Kind>(value, source);
    checkpoint::set_options<Kind>(optimizer,
                                  checkpoint::load_options<Kind>(optimizer, names, value, source));
  });
}

std::string describe_optimizer(const torch::optim::Optimizer& optimizer,
                               const NamedTensors& parameters) {
  return checkpoint::describe_value(collect_optimizer(optimizer, parameters));
}

std::vector<TensorPiece> optimizer_pieces(const torch::optim::Optimizer& optimizer,
                                          const NamedTensors& parameters) {
  return as_pieces("", checkpoint::state_tensors(collect_optimizer(optimizer, parameters)));
}

}  // namespace lockstep
