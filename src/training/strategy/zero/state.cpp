// SPDX-License-Identifier: Apache-2.0
#include "training/strategy/zero/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <set>
#include <torch/utils.h>

#include "lockstep/error.h"

namespace lockstep::strategy::zero {
namespace {

using Dict = c10::impl::GenericDict;

std::string in_model(const std::string& name) {
  return "model." + name;
}

std::string in_optimizer(const std::string& name, const std::string& key) {
  return fmt::format("optimizer.{}.{}", name, key);
}

// All names of each parameter; a shared parameter has several.
std::map<const void*, std::vector<std::string>> names_by_parameter(const torch::nn::Module& model) {
  std::map<const void*, std::vector<std::string>> names;
  for (const auto& [name, tensor] : collect_model(model)) {
    names[tensor.unsafeGetTensorImpl()].push_back(name);
  }
  return names;
}

// The pieces of the optimizer, by name.
NamedTensors optimized(const std::deque<FlatParameter>& flat_parameters) {
  NamedTensors all;
  for (const FlatParameter& flat : flat_parameters) {
    for (const Piece& piece : flat.pieces()) {
      all.emplace_back(flat.plan().members[piece.member].name, piece.value);
    }
  }
  return all;
}

// Parameters and buffers that do not belong to a flat parameter. Every worker holds them.
NamedTensors outside_flat_parameters(const State& state) {
  std::set<const void*> placed;
  for (const FlatParameter& flat : state.flat_parameters) {
    for (const Member& member : flat.plan().members) {
      placed.insert(member.parameter.unsafeGetTensorImpl());
    }
  }
  NamedTensors rest;
  for (const auto& [name, tensor] : collect_model(state.model)) {
    if (placed.count(tensor.unsafeGetTensorImpl()) == 0) {
      rest.emplace_back(name, tensor);
    }
  }
  return rest;
}

// A piece can have two extents. pieces() are what the optimizer of this worker updates: in stage 0
// all elements. owned() are what it saves: always its shard, so that every element is saved once.
// Optimizer state has the extent of pieces(); the part of owned() begins at this offset.

// Offset of the optimizer's piece within its parameter.
int64_t optimized_offset(const FlatParameter& flat, size_t member) {
  for (const Piece& piece : flat.pieces()) {
    if (piece.member == member) {
      return piece.offset;
    }
  }
  return 0;
}

// The optimizer state of one owned piece. A scalar, such as the number of steps, is saved with the
// piece that contains the first element.
void add_optimizer_state(std::vector<TensorPiece>& all,
                         const FlatParameter& flat,
                         const Piece& piece,
                         const Dict& state) {
  const Member& member = flat.plan().members[piece.member];
  for (const auto& item : state) {
    const std::string name = in_optimizer(member.name, item.key().toStringRef());
    const c10::IValue& value = item.value();
    if (value.isTensor() && value.toTensor().numel() > 0 && value.toTensor().dim() > 0) {
      const int64_t begin = piece.offset - optimized_offset(flat, piece.member);
      all.push_back({.name = name,
                     .shape = member.parameter.sizes().vec(),
                     .offset = piece.offset,
                     .values = value.toTensor().flatten().narrow(0, begin, piece.value.numel())});
    } else if (piece.offset == 0) {
      all.push_back(
          {.name = name,
           .shape = {},
           .offset = 0,
           .values = value.isTensor()
                         ? value.toTensor()
                         : torch::scalar_tensor(value.toScalar(),
                                                value.isInt() ? torch::kInt64 : torch::kFloat64)});
    }
  }
}

[[noreturn]] void refuse(const PieceSource& source,
                         const std::string& name,
                         const std::string& there,
                         const std::string& here) {
  throw Error(
      ExitCode::Usage,
      fmt::format("cannot resume from {}: it belongs to another model", source.description()))
      .fact("differs", name)
      .fact("file", there)
      .fact("model", here);
}

void require_same(const PieceSource& source, const std::string& name, const torch::Tensor& here) {
  const auto describe = [](const std::vector<int64_t>& shape) {
    return fmt::format("[{}]", fmt::join(shape, ", "));
  };
  const std::string of = in_model(name);
  if (!source.has(of)) {
    refuse(source, name, "has no such tensor", describe(here.sizes().vec()));
  }
  if (source.shape(of) != here.sizes().vec()) {
    refuse(source, name, describe(source.shape(of)), describe(here.sizes().vec()));
  }
}

void read_model(const State& state, const PieceSource& source) {
  for (const FlatParameter& flat : state.flat_parameters) {
    const std::vector<Member>& members = flat.plan().members;
    for (const Piece& piece : flat.plan().trained ? flat.pieces() : flat.owned()) {
      torch::Tensor into = piece.value;
      source.read(in_model(members[piece.member].name), piece.offset, into);
    }
    if (!flat.plan().trained && flat.plan().stays_whole) {
      for (const Member& member : members) {
        torch::Tensor into = member.parameter.detach();
        source.read(in_model(member.name), 0, into);
      }
    }
  }
  for (const auto& [name, tensor] : outside_flat_parameters(state)) {
    torch::Tensor into = tensor.detach();
    source.read(in_model(name), 0, into);
  }
}

// The optimizer state of a parameter in `source`, in the format of collect_optimizer().
Dict read_optimizer_state(const PieceSource& source,
                          const std::string& prefix,
                          const std::vector<std::string>& keys,
                          int64_t offset,
                          const torch::Tensor& like) {
  Dict state(c10::StringType::get(), c10::AnyType::get());
  for (const std::string& key : keys) {
    const std::string name = prefix + key;
    if (source.shape(name).empty()) {
      torch::Tensor value = torch::empty({}, source.dtype(name));
      source.read(name, 0, value);
      state.insert(key,
                   value.is_floating_point() ? c10::IValue(value.item<double>())
                                             : c10::IValue(value.item<int64_t>()));
    } else {
      torch::Tensor value = torch::empty_like(like, like.options().requires_grad(false));
      source.read(name, offset, value);
      state.insert(key, value);
    }
  }
  return state;
}

// State keys of each parameter, by the prefix "optimizer.NAME.". Names of parameters may contain
// dots, keys do not.
std::map<std::string, std::vector<std::string>> keys_by_prefix(const PieceSource& source) {
  std::map<std::string, std::vector<std::string>> keys;
  for (const std::string& name : source.names()) {
    if (name.starts_with("optimizer.")) {
      const size_t cut = name.rfind('.') + 1;
      keys[name.substr(0, cut)].push_back(name.substr(cut));
    }
  }
  return keys;
}

}  // namespace

// Every element is saved by exactly one worker: owned() are disjoint shards, and tensors outside of
// flat parameters, which all workers hold, are saved by rank 0. complete() verifies this. A shared
// parameter is saved under each of its names, as in state_dict() of PyTorch, but its optimizer
// state once.
std::vector<TensorPiece> collect_state(const State& state, int rank) {
  std::vector<TensorPiece> all;
  const auto names = names_by_parameter(state.model);
  const c10::IValue optimizer =
      collect_optimizer(state.optimizer, optimized(state.flat_parameters));
  const Dict states = optimizer.toGenericDict().at("state").toGenericDict();
  for (const FlatParameter& flat : state.flat_parameters) {
    for (const Piece& piece : flat.owned()) {
      const Member& member = flat.plan().members[piece.member];
      for (const std::string& name : names.at(member.parameter.unsafeGetTensorImpl())) {
        all.push_back({.name = in_model(name),
                       .shape = member.parameter.sizes().vec(),
                       .offset = piece.offset,
                       .values = piece.value});
      }
      if (states.contains(member.name)) {
        add_optimizer_state(all, flat, piece, states.at(member.name).toGenericDict());
      }
    }
  }
  if (rank == 0) {
    for (const auto& [name, tensor] : outside_flat_parameters(state)) {
      all.push_back({.name = in_model(name),
                     .shape = tensor.sizes().vec(),
                     .offset = 0,
                     .values = tensor.detach()});
    }
  }
  return all;
}

// The optimizer is restored before the model: apply_optimizer() throws if the state does not fit,
// and the values of the model are unchanged then. The caller must publish() the flat parameters
// afterwards, because read_model() writes only what this worker owns.
void restore_state(const State& state, const PieceSource& source) {
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : collect_model(state.model)) {
    require_same(source, name, tensor);
  }
  const auto keys = keys_by_prefix(source);
  Dict states(c10::StringType::get(), c10::AnyType::get());
  for (const FlatParameter& flat : state.flat_parameters) {
    for (const Piece& piece : flat.pieces()) {
      const std::string& name = flat.plan().members[piece.member].name;
      const auto found = keys.find(in_optimizer(name, ""));
      if (found != keys.end()) {
        states.insert(
            name,
            read_optimizer_state(source, found->first, found->second, piece.offset, piece.value));
      }
    }
  }
  // The options of the groups stay as the program has set them.
  const NamedTensors pieces = optimized(state.flat_parameters);
  Dict wanted = collect_optimizer(state.optimizer, pieces).toGenericDict();
  wanted.insert_or_assign("state", states);
  apply_optimizer(state.optimizer, pieces, wanted, source.description());
  read_model(state, source);
}

}  // namespace lockstep::strategy::zero
